-- An agent file of schema 0.0 from before chunks had one size: /notes/a.txt (also /b.txt), /big (5000 bytes), /link, /empty.
-- Each statement ends its line with a semicolon.
CREATE TABLE fs_inode (
  ino INTEGER PRIMARY KEY AUTOINCREMENT,
  mode INTEGER NOT NULL,
  uid INTEGER NOT NULL DEFAULT 0,
  gid INTEGER NOT NULL DEFAULT 0,
  size INTEGER NOT NULL DEFAULT 0,
  atime INTEGER NOT NULL,
  mtime INTEGER NOT NULL,
  ctime INTEGER NOT NULL
);
CREATE TABLE fs_dentry (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  parent_ino INTEGER NOT NULL,
  ino INTEGER NOT NULL,
  UNIQUE(parent_ino, name)
);
CREATE INDEX idx_fs_dentry_parent ON fs_dentry(parent_ino, name);
CREATE TABLE fs_data (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ino INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  size INTEGER NOT NULL,
  data BLOB NOT NULL
);
CREATE INDEX idx_fs_data_ino_offset ON fs_data(ino, offset);
CREATE TABLE fs_symlink (ino INTEGER PRIMARY KEY, target TEXT NOT NULL);
CREATE TABLE kv_store (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  created_at INTEGER DEFAULT (unixepoch()),
  updated_at INTEGER DEFAULT (unixepoch())
);
CREATE INDEX idx_kv_store_created_at ON kv_store(created_at);
CREATE TABLE tool_calls (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  parameters TEXT,
  result TEXT,
  error TEXT,
  started_at INTEGER NOT NULL,
  completed_at INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL
);
CREATE INDEX idx_tool_calls_name ON tool_calls(name);
CREATE INDEX idx_tool_calls_started_at ON tool_calls(started_at);
INSERT INTO fs_inode (ino, mode, uid, gid, size, atime, mtime, ctime) VALUES
  (1, 16877, 1000, 1000, 0, 1600000001, 1600000101, 1600000201),
  (2, 16877, 1000, 1000, 0, 1600000002, 1600000102, 1600000202),
  (3, 33188, 1000, 1000, 6, 1600000003, 1600000103, 1600000203),
  (4, 33188, 1000, 1000, 5000, 1600000004, 1600000104, 1600000204),
  (5, 41471, 1000, 1000, 12, 1600000005, 1600000105, 1600000205),
  (6, 33152, 1000, 1000, 0, 1600000006, 1600000106, 1600000206);
INSERT INTO fs_dentry (name, parent_ino, ino) VALUES
  ('notes', 1, 2), ('a.txt', 2, 3), ('b.txt', 1, 3), ('big', 1, 4), ('link', 1, 5), ('empty', 1, 6);
INSERT INTO fs_data (ino, offset, size, data) VALUES (3, 0, 6, CAST('hello' || char(10) AS BLOB));
INSERT INTO fs_data (ino, offset, size, data) VALUES (4, 4000, 1000, CAST(replace(hex(zeroblob(48)), '0', 'x') || replace(hex(zeroblob(452)), '0', 'y') AS BLOB));
INSERT INTO fs_data (ino, offset, size, data) VALUES (4, 0, 4000, CAST(replace(hex(zeroblob(2000)), '0', 'x') AS BLOB));
INSERT INTO fs_symlink (ino, target) VALUES (5, '/notes/a.txt');
INSERT INTO kv_store (key, value, created_at, updated_at) VALUES ('user:name', '"Ada"', 1600000000, 1600000001);
INSERT INTO tool_calls (name, parameters, result, error, started_at, completed_at, duration_ms) VALUES
  ('search', '{"q":1}', '[1]', NULL, 1600000000, 1600000002, 2000),
  ('fetch', NULL, NULL, 'timeout', 1600000003, 1600000003, 0);
