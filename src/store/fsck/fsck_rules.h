// The rules of docs/format.md that SQL alone can check. Included only by fsck_checks.cc.
#pragma once

#include <string_view>

#include "db/sql.h"

namespace warren {

enum class Repair { kNo, kYes };

// One rule as a query: every row is a violation, and fills the `{}` of the message in order.
struct Check {
  std::string_view rule;
  std::string_view needs;  // tables and columns, space-separated; "!x": only if x does not exist
  Repair repair;
  std::string_view message;
  Sql query;
};

// 61440 is S_IFMT, 16384 S_IFDIR, 32768 S_IFREG, 40960 S_IFLNK.
inline constexpr Check kTreeChecks[] = {
    {"FS-1", "", Repair::kYes, "there is no root directory (inode 1)",
     "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM fs_inode WHERE ino = 1)"},
    {"FS-2", "", Repair::kYes, "the root (inode 1) is not a directory: mode {}",
     "SELECT mode FROM fs_inode WHERE ino = 1 AND (mode & 61440) <> 16384"},
    {"FS-2", "", Repair::kYes, "the root has a name: entry {} in directory {}",
     "SELECT name, parent_ino FROM fs_dentry WHERE ino = 1"},
    {"FS-3", "", Repair::kYes, "entry {} in directory {} leads to inode {}, which does not exist",
     "SELECT name, parent_ino, ino FROM fs_dentry d WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = d.ino)"
     " AND d.ino <> 1"},
    {"FS-4", "", Repair::kYes, "entry {} of inode {} is in directory {}, which does not exist",
     "SELECT name, ino, parent_ino FROM fs_dentry d WHERE d.parent_ino <> 1 AND"
     " NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = d.parent_ino)"},
    {"FS-5", "", Repair::kYes, "entry {} is in inode {}, which is not a directory",
     "SELECT d.name, d.parent_ino FROM fs_dentry d JOIN fs_inode p ON p.ino = d.parent_ino"
     " WHERE (p.mode & 61440) <> 16384 AND p.ino <> 1"},
    {"FS-6", "", Repair::kYes, "the name {} appears {} times in directory {}",
     "SELECT name, count(*), parent_ino FROM fs_dentry GROUP BY parent_ino, name HAVING count(*) > 1"},
    {"FS-7", "", Repair::kNo, "inode {} has mode {}, which is not a valid file type",
     "SELECT ino, mode FROM fs_inode WHERE typeof(mode) <> 'integer' OR (mode & ~65535) <> 0 OR"
     " ((mode & 61440) NOT IN (4096, 8192, 16384, 24576, 32768, 40960, 49152) AND ino <> 1)"},
    {"FS-11", "", Repair::kYes, "inode {} has no name",
     "SELECT i.ino FROM fs_inode i WHERE i.ino <> 1 AND"
     " NOT EXISTS (SELECT 1 FROM fsck_link l WHERE l.ino = i.ino) AND"
     " NOT EXISTS (SELECT 1 FROM fsck_orphan o WHERE o.ino = i.ino)"},
    {"FS-12", "fs_inode.nlink", Repair::kYes, "inode {} has link count {}, but {} names",
     "SELECT i.ino, i.nlink, l.names FROM fs_inode i JOIN fsck_link l ON l.ino = i.ino"
     " WHERE (i.mode & 61440) <> 16384 AND i.nlink <> l.names AND i.ino <> 1"},
    {"FS-16", "", Repair::kYes, "entry {} in directory {} is not a valid name",
     "SELECT name, parent_ino FROM fs_dentry WHERE typeof(name) <> 'text' OR name IN ('', '.', '..') OR"
     " instr(name, '/') > 0 OR octet_length(name) > 255 OR instr(CAST(name AS BLOB), x'00') > 0"},
    {"FS-17", "", Repair::kYes, "directory {} cannot be reached from the root",
     "SELECT i.ino FROM fs_inode i WHERE (i.mode & 61440) = 16384 AND"
     " NOT EXISTS (SELECT 1 FROM fsck_reached r WHERE r.ino = i.ino)"},
    {"FS-18", "", Repair::kYes, "directory {} has {} names",
     "SELECT i.ino, l.names FROM fs_inode i JOIN fsck_link l ON l.ino = i.ino"
     " WHERE (i.mode & 61440) = 16384 AND l.names > 1 AND i.ino <> 1"},
};

inline constexpr Check kNodeChecks[] = {
    {"FS-8", "fs_data", Repair::kYes, "inode {} is not a regular file, but has {} chunks of data",
     "SELECT i.ino, count(*) FROM fs_inode i JOIN fs_data c ON c.ino = i.ino"
     " WHERE (i.mode & 61440) <> 32768 GROUP BY i.ino"},
    {"FS-9", "fs_data.chunk_index", Repair::kNo, "chunk {1} of inode {0} holds {2} bytes, more than a chunk can",
     "SELECT ino, chunk_index, octet_length(data) FROM fs_data"
     " WHERE octet_length(data) > (SELECT chunk_bytes FROM fsck_fact)"},
    {"FS-9", "fs_data.chunk_index", Repair::kYes, "chunk {1} of inode {0} holds {2} bytes, and is not the last one",
     "SELECT ino, chunk_index, octet_length(data) FROM fs_data c"
     " WHERE octet_length(data) < (SELECT chunk_bytes FROM fsck_fact) AND"
     " EXISTS (SELECT 1 FROM fs_data n WHERE n.ino = c.ino AND n.chunk_index > c.chunk_index)"},
    {"FS-9", "fs_data.chunk_index", Repair::kNo, "chunk {1} of inode {0} is stored as {2}, not as bytes",
     "SELECT ino, chunk_index, typeof(data) FROM fs_data WHERE typeof(data) <> 'blob'"},
    {"FS-10", "fs_data.chunk_index", Repair::kYes, "inode {} has a chunk with the index {}",
     "SELECT ino, chunk_index FROM fs_data WHERE chunk_index < 0 OR typeof(chunk_index) <> 'integer'"},
    {"FS-10", "fs_data.chunk_index", Repair::kYes, "chunk {1} of inode {0} reaches beyond its size of {2}",
     "SELECT c.ino, c.chunk_index, i.size FROM fs_data c JOIN fs_inode i ON i.ino = c.ino"
     " WHERE (i.mode & 61440) = 32768 AND c.chunk_index >= 0 AND"
     " c.chunk_index * (SELECT chunk_bytes FROM fsck_fact) + octet_length(c.data) > i.size"
     " AND octet_length(c.data) <= (SELECT chunk_bytes FROM fsck_fact)"},
    {"FS-13", "fs_symlink", Repair::kNo, "symbolic link {} has no target",
     "SELECT i.ino FROM fs_inode i WHERE (i.mode & 61440) = 40960 AND"
     " NOT EXISTS (SELECT 1 FROM fs_symlink s WHERE s.ino = i.ino)"},
    {"FS-13", "fs_symlink", Repair::kYes, "inode {} is not a symbolic link, but has the target {}",
     "SELECT i.ino, s.target FROM fs_symlink s JOIN fs_inode i ON i.ino = s.ino WHERE (i.mode & 61440) <> 40960"},
    {"FS-14", "fs_data", Repair::kYes, "{1} chunks of data belong to inode {0}, which does not exist",
     "SELECT ino, count(*) FROM fs_data c WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = c.ino)"
     " GROUP BY ino"},
    {"FS-14", "fs_symlink", Repair::kYes, "the link target {1} belongs to inode {0}, which does not exist",
     "SELECT ino, target FROM fs_symlink s WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = s.ino)"},
    {"FS-15", "fs_inode.ctime_nsec", Repair::kYes, "inode {} has nanoseconds out of range: {}, {}, {}",
     "SELECT ino, atime_nsec, mtime_nsec, ctime_nsec FROM fs_inode WHERE"
     " typeof(atime_nsec) <> 'integer' OR atime_nsec NOT BETWEEN 0 AND 999999999 OR"
     " typeof(mtime_nsec) <> 'integer' OR mtime_nsec NOT BETWEEN 0 AND 999999999 OR"
     " typeof(ctime_nsec) <> 'integer' OR ctime_nsec NOT BETWEEN 0 AND 999999999"},
    {"FS-21", "", Repair::kNo, "inode {} has times that are not Unix seconds: {}, {}, {}",
     "SELECT ino, atime, mtime, ctime FROM fs_inode WHERE typeof(atime) <> 'integer' OR"
     " typeof(mtime) <> 'integer' OR typeof(ctime) <> 'integer'"},
    {"FS-21", "", Repair::kNo, "inode {} has the size {}, which is not valid",
     "SELECT ino, size FROM fs_inode WHERE typeof(size) <> 'integer' OR size < 0"},
    {"FS-21", "", Repair::kNo, "inode {} has the owner {}:{}, which is not valid",
     "SELECT ino, uid, gid FROM fs_inode WHERE typeof(uid) <> 'integer' OR typeof(gid) <> 'integer' OR"
     " uid NOT BETWEEN 0 AND 4294967295 OR gid NOT BETWEEN 0 AND 4294967295"},
};

inline constexpr Check kTrailChecks[] = {
    {"KV-1", "kv_store", Repair::kNo, "the key {} exists {} times",
     "SELECT key, count(*) FROM kv_store GROUP BY key HAVING count(*) > 1"},
    {"KV-3", "kv_store", Repair::kNo, "the key {} has times that are not Unix seconds: {}, {}",
     "SELECT key, created_at, updated_at FROM kv_store WHERE typeof(created_at) <> 'integer' OR"
     " typeof(updated_at) <> 'integer' OR created_at NOT BETWEEN -99999999999 AND 99999999999 OR"
     " updated_at NOT BETWEEN -99999999999 AND 99999999999"},
    // NULL and '' both mean absent; a success without a result is fine.
    {"TC-1", "tool_calls.status", Repair::kNo, "tool call {} ({}, {}) does not have exactly one of result and error",
     "SELECT id, name, status FROM tool_calls WHERE (result <> '' AND error <> '') OR"
     " (status = 'success' AND error <> '') OR (status = 'error' AND result <> '')"},
    {"TC-1", "tool_calls !tool_calls.status", Repair::kNo, "tool call {} ({}) has both a result and an error",
     "SELECT id, name FROM tool_calls WHERE result <> '' AND error <> ''"},
    {"TC-2", "tool_calls.status", Repair::kNo, "tool call {} ({}) is finished, but has no completion time",
     "SELECT id, name FROM tool_calls WHERE status <> 'pending' AND typeof(completed_at) NOT IN ('integer', 'real')"},
    {"TC-2", "tool_calls !tool_calls.status", Repair::kNo, "tool call {} ({}) is finished, but has no completion time",
     "SELECT id, name FROM tool_calls WHERE typeof(completed_at) NOT IN ('integer', 'real')"},
    {"TC-3", "tool_calls", Repair::kNo, "tool call {} ({}) has the duration {} ms, from {} to {}",
     "SELECT id, name, duration_ms, started_at, completed_at FROM tool_calls"
     " WHERE typeof(completed_at) IN ('integer', 'real') AND"
     " (duration_ms IS NULL OR abs(duration_ms - (completed_at - started_at) * 1000) >= 1)"},
    {"TC-6", "tool_calls.status", Repair::kNo, "tool call {} ({}) has the status {}, which is not valid",
     "SELECT id, name, status FROM tool_calls WHERE status NOT IN ('pending', 'success', 'error')"},
    {"TC-6", "tool_calls.status", Repair::kNo, "tool call {} ({}) is pending, but has an outcome",
     "SELECT id, name FROM tool_calls WHERE status = 'pending' AND"
     " (result <> '' OR error <> '' OR completed_at IS NOT NULL OR duration_ms IS NOT NULL)"},
    {"OV-3", "fs_origin", Repair::kYes, "fs_origin has an origin for inode {}, which does not exist",
     "SELECT delta_ino FROM fs_origin o WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = o.delta_ino)"},
    {"OV-4", "fs_overlay_config", Repair::kNo, "fs_overlay_config has no base path",
     "SELECT 1 WHERE NOT EXISTS"
     " (SELECT 1 FROM fs_overlay_config WHERE key = 'base_path' AND substr(value, 1, 1) = '/')"},
    {"WR-11", "wr_origin", Repair::kYes, "wr_origin has a row for inode {}, which does not exist",
     "SELECT delta_ino FROM wr_origin o WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = o.delta_ino)"},
    {"WR-11", "wr_base_range", Repair::kYes, "wr_base_range has a row for inode {}, which does not exist",
     "SELECT DISTINCT delta_ino FROM wr_base_range r"
     " WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = r.delta_ino)"},
    {"WR-11", "wr_ancestor", Repair::kYes, "wr_ancestor has a row for inode {}, which does not exist",
     "SELECT delta_ino FROM wr_ancestor a WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = a.delta_ino)"},
    {"WR-12", "wr_base_range", Repair::kNo, "inode {} takes bytes {} to {} from the base, which is not a valid range",
     "SELECT r.delta_ino, r.first_byte, r.end_byte FROM wr_base_range r JOIN fs_inode i ON i.ino = r.delta_ino"
     " WHERE r.first_byte < 0 OR r.first_byte >= r.end_byte OR r.end_byte > i.size OR (i.mode & 61440) <> 32768"
     " OR EXISTS (SELECT 1 FROM wr_base_range s WHERE s.delta_ino = r.delta_ino AND s.first_byte < r.first_byte"
     " AND s.end_byte > r.first_byte)"},
};

inline constexpr Check kOwnChecks[] = {
    {"WR-3", "", Repair::kNo,
     "the file has a trigger {}, so AgentFS programs cannot open it; `warren sql ID --write 'DROP TRIGGER name'` "
     "removes"
     " it",
     "SELECT name FROM sqlite_schema WHERE type = 'trigger'"},
    {"WR-3", "", Repair::kNo,
     "the file has a virtual table {}, so AgentFS programs cannot open it; `warren sql ID --write 'DROP TABLE name'`"
     " removes it with its content",
     "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"},
    {"WR-4", "wr_meta", Repair::kNo, "wr_meta has no format",
     "SELECT 1 WHERE NOT EXISTS"
     " (SELECT 1 FROM wr_meta WHERE key = 'format' AND typeof(value) = 'integer' AND value >= 1)"},
    {"WR-6", "wr_xattr", Repair::kNo, "inode {} has an attribute with the name {}, which is not valid",
     "SELECT ino, name FROM wr_xattr WHERE octet_length(name) NOT BETWEEN 1 AND 255"},
    {"WR-7", "wr_orphan", Repair::kYes, "wr_orphan lists inode {}, which does not exist",
     "SELECT ino FROM wr_orphan o WHERE NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = o.ino)"},
    {"WR-7", "wr_orphan", Repair::kYes, "wr_orphan lists inode {}, which has a name",
     "SELECT o.ino FROM wr_orphan o JOIN fsck_link l ON l.ino = o.ino"},
    {"WR-7", "wr_orphan fs_inode.nlink", Repair::kYes, "wr_orphan lists inode {}, which has link count {}",
     "SELECT o.ino, i.nlink FROM wr_orphan o JOIN fs_inode i ON i.ino = o.ino WHERE i.nlink <> 0 AND"
     " (i.mode & 61440) <> 16384 AND NOT EXISTS (SELECT 1 FROM fsck_link l WHERE l.ino = o.ino)"},
    {"WR-8", "wr_kv_expiry", Repair::kYes, "wr_kv_expiry has values that are not integers for the key {}",
     "SELECT key FROM wr_kv_expiry WHERE typeof(expires_at_ms) <> 'integer' OR typeof(set_at) <> 'integer'"},
    {"WR-13", "wr_expiry", Repair::kYes, "wr_expiry has a time for inode {} that is not a whole number",
     "SELECT ino FROM wr_expiry WHERE typeof(expires_at_ms) <> 'integer'"},
    {"WR-70", "wr_item", Repair::kYes, "wr_item has the id {} for inode {}, which is not valid",
     "SELECT id, ino FROM wr_item WHERE typeof(id) <> 'text' OR octet_length(id) <> 36 OR id GLOB '*[^0-9a-f-]*'"},
    {"WR-52", "wr_checkpoint wr_meta", Repair::kYes, "checkpoint {} has the name {}, or an id, that is not valid",
     "SELECT id, name FROM wr_checkpoint WHERE id < 1 OR id > coalesce((SELECT value FROM wr_meta WHERE key ="
     " 'history_version'), 0) OR typeof(name) <> 'text' OR octet_length(name) NOT BETWEEN 1 AND 255 OR name IN"
     " ('.', '..') OR name GLOB '*[/@' || char(1) || '-' || char(31) || char(127) || ']*' OR name NOT GLOB '*[^0-9]*'"},
    {"WR-53", "wr_checkpoint wr_past_dentry wr_past_inode", Repair::kYes,
     "in checkpoint {}, entry {} of directory {} does not belong to a tree",
     "SELECT d.k, d.name, d.parent_ino FROM (SELECT e.*, (SELECT min(id) FROM wr_checkpoint WHERE id >= e.since) AS k"
     " FROM wr_past_dentry e) d WHERE d.k < d.until AND (NOT EXISTS (SELECT 1 FROM wr_past_inode i WHERE i.ino = d.ino "
     "AND i.since <= d.k AND i.until > d.k) OR NOT EXISTS"
     " (SELECT 1 FROM wr_past_inode p WHERE p.ino = d.parent_ino AND p.since <= d.k AND p.until > d.k AND"
     " (p.mode & 61440) = 16384) OR typeof(d.name) <> 'text' OR d.name IN ('', '.', '..') OR instr(d.name, '/') > 0 OR"
     " octet_length(d.name) > 255 OR d.ino = 1)"},
    // If it is right when it begins, it can only be wrong after its node, or its directory, has ended.
    {"WR-53", "wr_checkpoint wr_past_dentry wr_past_inode", Repair::kYes,
     "in checkpoint {}, entry {} of directory {} leads to a node that does not exist",
     "SELECT d.k, d.name, d.parent_ino FROM (SELECT e.*, (SELECT min(id) FROM wr_checkpoint WHERE id >= i.until) AS k"
     " FROM wr_past_inode i JOIN wr_past_dentry e ON e.ino = +i.ino AND e.since < i.until AND e.until > i.until"
     " WHERE i.until < 9223372036854775807 AND NOT EXISTS (SELECT 1 FROM wr_past_inode n WHERE n.ino = i.ino AND"
     " n.since = i.until)) d WHERE d.k < d.until AND NOT EXISTS (SELECT 1 FROM wr_past_inode i WHERE i.ino = d.ino"
     " AND i.since <= d.k AND i.until > d.k)"},
    {"WR-53", "wr_checkpoint wr_past_dentry wr_past_inode", Repair::kYes,
     "in checkpoint {}, entry {} is in {}, which is not a directory",
     "SELECT d.k, d.name, d.parent_ino FROM (SELECT e.*, (SELECT min(id) FROM wr_checkpoint WHERE id >= i.until) AS k"
     " FROM wr_past_inode i JOIN wr_past_dentry e ON e.parent_ino = i.ino AND e.since < i.until AND e.until > i.until"
     " WHERE i.until < 9223372036854775807 AND NOT EXISTS (SELECT 1 FROM wr_past_inode n WHERE n.ino = i.ino AND"
     " n.since = i.until AND (n.mode & 61440) = 16384)) d WHERE d.k < d.until AND NOT EXISTS (SELECT 1 FROM"
     " wr_past_inode p WHERE p.ino = d.parent_ino AND p.since <= d.k AND p.until > d.k AND (p.mode & 61440) = 16384)"},
    {"WR-53", "wr_checkpoint wr_past_inode", Repair::kYes, "in checkpoint {}, the root is not a directory",
     "SELECT c.id FROM wr_checkpoint c WHERE NOT EXISTS (SELECT 1 FROM wr_past_inode i WHERE i.ino = 1 AND"
     " i.since <= c.id AND i.until > c.id AND (i.mode & 61440) = 16384)"},
    {"WR-80", "wr_cipher_key", Repair::kNo, "key {} in wr_cipher_key is not valid",
     "SELECT id FROM wr_cipher_key k WHERE typeof(salt) <> 'blob' OR octet_length(salt) <> 16 OR typeof(proof) <> "
     "'blob'"
     " OR octet_length(proof) <> 32 OR (replaced_by IS NOT NULL AND"
     " NOT EXISTS (SELECT 1 FROM wr_cipher_key r WHERE r.id = k.replaced_by AND r.replaced_by IS NULL))"},
    {"WR-81", "wr_cipher_pattern wr_cipher_key", Repair::kNo, "the pattern {} has key {}, which does not exist",
     "SELECT pattern, key_id FROM wr_cipher_pattern p"
     " WHERE NOT EXISTS (SELECT 1 FROM wr_cipher_key k WHERE k.id = p.key_id)"},
    {"WR-82", "wr_cipher_file wr_cipher_key", Repair::kNo, "inode {} is encrypted with key {}, which does not exist",
     "SELECT c.ino, c.key_id FROM wr_cipher_file c JOIN fs_inode i ON i.ino = c.ino"
     " WHERE NOT EXISTS (SELECT 1 FROM wr_cipher_key k WHERE k.id = c.key_id)"},
    {"WR-82", "wr_cipher_file", Repair::kNo, "the row of the encrypted inode {} is not valid",
     "SELECT c.ino FROM wr_cipher_file c JOIN fs_inode i ON i.ino = c.ino WHERE (i.mode & 61440) <> 32768 OR"
     " typeof(c.file_id) <> 'blob' OR octet_length(c.file_id) <> 16 OR typeof(c.mac) <> 'blob' OR"
     " octet_length(c.mac) <> 32"},
    {"WR-82", "wr_cipher_file", Repair::kNo, "inode {} is encrypted, and was changed without its key: size {}, not {}",
     "SELECT c.ino, i.size, c.size FROM wr_cipher_file c JOIN fs_inode i ON i.ino = c.ino WHERE c.size IS NOT i.size"},
    {"WR-83", "wr_cipher_chunk wr_cipher_file", Repair::kNo, "chunk {1} of inode {0} has a seal that is not valid",
     "SELECT c.ino, c.chunk_index FROM wr_cipher_chunk c JOIN fs_inode i ON i.ino = c.ino WHERE"
     " typeof(c.nonce) <> 'blob' OR octet_length(c.nonce) <> 24 OR typeof(c.tag) <> 'blob' OR"
     " octet_length(c.tag) <> 16 OR NOT EXISTS (SELECT 1 FROM wr_cipher_file f WHERE f.ino = c.ino)"},
    {"WR-83", "wr_cipher_chunk fs_data.chunk_index", Repair::kNo,
     "chunk {1} of the encrypted inode {0} is missing: it was changed without its key",
     "SELECT c.ino, c.chunk_index FROM wr_cipher_chunk c JOIN fs_inode i ON i.ino = c.ino WHERE"
     " NOT EXISTS (SELECT 1 FROM fs_data d WHERE d.ino = c.ino AND d.chunk_index = c.chunk_index)"},
    {"WR-83", "wr_cipher_chunk wr_cipher_file fs_data.chunk_index", Repair::kNo,
     "chunk {1} of the encrypted inode {0} is not encrypted: it was changed without its key",
     "SELECT d.ino, d.chunk_index FROM wr_cipher_file f CROSS JOIN fs_data d ON d.ino = f.ino WHERE"
     " NOT EXISTS (SELECT 1 FROM wr_cipher_chunk c WHERE c.ino = d.ino AND c.chunk_index = d.chunk_index)"},
    {"WR-9", "wr_tool_call tool_calls", Repair::kYes, "wr_tool_call has details of call {}, which does not exist",
     "SELECT id FROM wr_tool_call w WHERE NOT EXISTS (SELECT 1 FROM tool_calls t WHERE t.id = w.id)"},
    {"WR-40", "wr_audit", Repair::kNo, "row {} of wr_audit does not follow the one before; `warren audit` says more",
     "SELECT a.seq FROM wr_audit a WHERE a.prev IS NOT iif(a.seq = 1, zeroblob(32),"
     " (SELECT b.hash FROM wr_audit b WHERE b.seq = a.seq - 1)) OR a.seq < 1"},
    {"WR-10", "wr_meta", Repair::kNo, "wr_meta has {} for {}, which is not a valid amount",
     "SELECT value, key FROM wr_meta WHERE key IN ('quota_bytes', 'quota_inodes')"
     " AND (typeof(value) <> 'integer' OR value < 0)"},
    {"WR-10", "wr_meta", Repair::kYes, "wr_meta has {} for {}, which is not a valid amount",
     "SELECT value, key FROM wr_meta WHERE key IN ('used_bytes', 'used_inodes')"
     " AND (typeof(value) <> 'integer' OR value < 0)"},
    {"WR-35", "wr_meta", Repair::kYes, "wr_meta names {} as the root of the namespace, which is not a directory",
     "SELECT value FROM wr_meta WHERE key = 'namespace_ino' AND (typeof(value) <> 'integer' OR"
     " NOT EXISTS (SELECT 1 FROM fs_inode i WHERE i.ino = value AND (i.mode & 61440) = 16384))"},
    {"WR-35", "wr_meta", Repair::kYes,
     "wr_meta names inode {} as the root of the namespace, which is the root of the files",
     "SELECT value FROM wr_meta WHERE key = 'namespace_ino' AND value = 1"},
    {"WR-35", "wr_meta", Repair::kYes, "wr_meta names inode {} as the root of the namespace, which has a name",
     "SELECT m.value FROM wr_meta m JOIN fsck_link l ON l.ino = m.value WHERE m.key = 'namespace_ino' AND m.value <> "
     "1"},
    {"WR-35", "wr_meta wr_orphan", Repair::kYes, "the root of the namespace, inode {}, is not kept by wr_orphan",
     "SELECT m.value FROM wr_meta m JOIN fs_inode i ON i.ino = m.value WHERE m.key = 'namespace_ino' AND m.value <> 1"
     " AND (i.mode & 61440) = 16384 AND NOT EXISTS (SELECT 1 FROM fsck_link l WHERE l.ino = m.value)"
     " AND NOT EXISTS (SELECT 1 FROM wr_orphan o WHERE o.ino = m.value AND o.boot = '' AND o.pid = 0)"},
    {"WR-35", "wr_meta wr_orphan", Repair::kYes, "wr_orphan keeps directory {}, which is not the root of the namespace",
     "SELECT o.ino FROM wr_orphan o JOIN fs_inode i ON i.ino = o.ino WHERE (i.mode & 61440) = 16384 AND o.boot = ''"
     " AND o.pid = 0 AND NOT EXISTS (SELECT 1 FROM wr_meta m WHERE m.key = 'namespace_ino' AND m.value = o.ino)"},
    {"WR-35", "wr_meta", Repair::kNo, "inode {} has names in the namespace and among the files",
     "WITH RECURSIVE names(ino) AS (SELECT value FROM wr_meta WHERE key = 'namespace_ino' AND value <> 1"
     " AND value NOT IN (SELECT ino FROM fsck_link)"
     " UNION SELECT d.ino FROM names n CROSS JOIN fs_dentry d ON d.parent_ino = n.ino"
     " CROSS JOIN fs_inode i ON i.ino = d.ino WHERE (i.mode & 61440) = 16384)"
     " SELECT d.ino FROM names n CROSS JOIN fs_dentry d ON d.parent_ino = n.ino CROSS JOIN fsck_link l ON l.ino = d.ino"
     " CROSS JOIN fs_inode i ON i.ino = d.ino WHERE (i.mode & 61440) <> 16384"
     " GROUP BY d.ino HAVING count(*) < max(l.names)"},
    {"WR-35", "wr_meta", Repair::kNo, "/policy of the namespace, inode {}, is not a directory",
     "SELECT i.ino FROM wr_meta m CROSS JOIN fs_dentry d ON d.parent_ino = m.value AND d.name = 'policy'"
     " CROSS JOIN fs_inode i ON i.ino = d.ino WHERE m.key = 'namespace_ino' AND (i.mode & 61440) <> 16384"},
    {"WR-35", "wr_meta", Repair::kNo, "/policy/{} of the namespace is not a file with one name",
     "SELECT f.name FROM wr_meta m CROSS JOIN fs_dentry d ON d.parent_ino = m.value AND d.name = 'policy'"
     " CROSS JOIN fs_dentry f ON f.parent_ino = d.ino AND f.name IN ('active.json', 'history.json')"
     " CROSS JOIN fs_inode i ON i.ino = f.ino CROSS JOIN fsck_link l ON l.ino = f.ino"
     " WHERE m.key = 'namespace_ino' AND ((i.mode & 61440) <> 32768 OR l.names > 1)"},
    {"WR-35", "wr_meta !fs_overlay_config", Repair::kNo, "/policy, inode {}, is a symbolic link",
     "SELECT i.ino FROM fs_dentry d CROSS JOIN fs_inode i ON i.ino = d.ino"
     " WHERE d.parent_ino = 1 AND d.name = 'policy' AND (i.mode & 61440) = 40960"},
    {"WR-35", "wr_meta !fs_overlay_config", Repair::kNo, "/policy/{} is not a file with one name",
     "SELECT f.name FROM fs_dentry d CROSS JOIN fs_dentry f ON f.parent_ino = d.ino"
     " AND f.name IN ('active.json', 'history.json')"
     " CROSS JOIN fs_inode i ON i.ino = f.ino CROSS JOIN fsck_link l ON l.ino = f.ino"
     " WHERE d.parent_ino = 1 AND d.name = 'policy' AND ((i.mode & 61440) <> 32768 OR l.names > 1)"},
};

}  // namespace warren
