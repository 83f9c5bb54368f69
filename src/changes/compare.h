// Compares nodes of two trees, as far as a diff is concerned.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Streams both regular files up to the first difference.
Result<bool> has_same_content(FileSystem& a, const Attributes& file_a, FileSystem& b, const Attributes& file_b);

// The same by path, for trees whose nodes nobody has retained; links are not followed. False for different sizes.
Result<bool> has_same_content(FileSystem& a, const std::string& path_a, FileSystem& b, const std::string& path_b);

// Compares type, permission bits and owner. Times do not count: reading or rewriting the same content is not a change.
bool has_same_mode(const Attributes& a, const Attributes& b);

// Whether something in the base was last changed before a moment of ours. The host takes the times of files from a
// clock that moves in steps of up to 10 ms, so that what has just been changed may look older than it is.
bool is_surely_older(Timestamp changed_at, Timestamp moment);

// Whether a directory was moved to its name since, or its metadata changed: changes of its entries alter both times.
inline bool is_moved_since(const Attributes& dir, Timestamp known_at) {
  return !is_surely_older(dir.ctime, known_at) && dir.mtime < dir.ctime;
}

// Capabilities and labels: what they grant is for the host's user to decide.
inline bool is_privileged_xattr(std::string_view name) {
  return name.starts_with("security.") || name.starts_with("trusted.");
}

using XattrMap = std::map<std::string, std::string>;
Result<XattrMap> read_xattrs(FileSystem& fs, Inode node);
Result<XattrMap> read_xattrs(FileSystem& fs, const std::string& path);  // of a link itself

}  // namespace warren
