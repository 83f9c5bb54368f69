// The system calls that build a tree of mounts, with errors that say what was done to what.
#pragma once

#include <cstdint>
#include <string>

#include <sys/stat.h>

#include "base/result.h"
#include "os/fd.h"

namespace warren::mounts {

// Mount attributes, as <linux/mount.h> has them.
inline constexpr std::uint64_t kReadOnly = 0x1;
inline constexpr std::uint64_t kNoSuid = 0x2;
inline constexpr std::uint64_t kNoDev = 0x4;
inline constexpr std::uint64_t kNoExec = 0x8;

enum class Depth { kOne, kTree };

// A detached copy of what is mounted at `path`.
Result<Fd> clone_tree(const std::string& path, Depth depth);

// Of a name in an open directory, with everything mounted below. A link is not followed.
Result<Fd> clone_entry(const Fd& dir, const std::string& name);

Status set_attributes(const std::string& path, std::uint64_t attributes, Depth depth);
Status set_attributes(const Fd& tree, std::uint64_t attributes, Depth depth);

// A new filesystem that is mounted nowhere yet. Options are "key=value,key".
Result<Fd> make_filesystem(const std::string& type, const std::string& options, std::uint64_t attributes);

// Follows no symbolic link on the way to `path`: kLoop.
Status attach(const Fd& tree, const std::string& path);

// Below what is mounted at `path` already, which then can be taken away. Fails before Linux 6.5.
Status attach_beneath(const Fd& tree, const std::string& path);

// The read-only or otherwise restricted face of something, laid over itself.
Status restrict_in_place(const std::string& path, std::uint64_t attributes);

// Makes a directory or an empty file to mount on, with its parents, where there is none.
Status make_target(const std::string& path, bool is_directory);

}  // namespace warren::mounts
