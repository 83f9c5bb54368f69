#!/usr/bin/env python3
"""Creates an agent file of schema 0.0 or 0.2 that contains /hello: make_old_agent.py VERSION FILE"""
import sqlite3
import sys

version, path = sys.argv[1:]
nlink = "" if version == "0.0" else "nlink INTEGER NOT NULL DEFAULT 0,"
db = sqlite3.connect(path)
db.executescript(f"""
CREATE TABLE fs_config (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE fs_inode (ino INTEGER PRIMARY KEY AUTOINCREMENT, mode INTEGER NOT NULL, {nlink}
  uid INTEGER NOT NULL DEFAULT 0, gid INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL DEFAULT 0,
  atime INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL);
CREATE TABLE fs_dentry (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, parent_ino INTEGER NOT NULL,
  ino INTEGER NOT NULL, UNIQUE(parent_ino, name));
CREATE TABLE fs_data (ino INTEGER NOT NULL, chunk_index INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (ino, chunk_index));
CREATE TABLE fs_symlink (ino INTEGER PRIMARY KEY, target TEXT NOT NULL);
CREATE TABLE kv_store (key TEXT PRIMARY KEY, value TEXT NOT NULL, created_at INTEGER DEFAULT (unixepoch()),
  updated_at INTEGER DEFAULT (unixepoch()));
CREATE TABLE tool_calls (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, parameters TEXT, result TEXT,
  error TEXT, status TEXT NOT NULL DEFAULT 'pending', started_at INTEGER NOT NULL, completed_at INTEGER,
  duration_ms INTEGER);
INSERT INTO fs_config VALUES ('chunk_size', '4096');
INSERT INTO fs_inode (ino, mode, size, atime, mtime, ctime) VALUES (1, 16877, 0, 1, 1, 1), (2, 33188, 2, 1, 1, 1);
INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('hello', 1, 2);
INSERT INTO fs_data VALUES (2, 0, CAST('hi' AS BLOB));
INSERT INTO kv_store (key, value) VALUES ('k', '1');
""")
if version == "0.2":
    db.execute("UPDATE fs_inode SET nlink = 1")
db.commit()
