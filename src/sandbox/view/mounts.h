// The system calls that build a tree of mounts, with errors that name the operation and its target.
#pragma once

#include <cstdint>
#include <string>

#include <sys/stat.h>

#include "base/result.h"
#include "os/fd.h"

namespace warren::mounts {

// Mount attributes, as in <linux/mount.h>.
inline constexpr std::uint64_t kReadOnly = 0x1;
inline constexpr std::uint64_t kNoSuid = 0x2;
inline constexpr std::uint64_t kNoDev = 0x4;
inline constexpr std::uint64_t kNoExec = 0x8;

enum class Depth { kOne, kTree };

// A detached copy of the mount at `path`.
Result<Fd> clone_tree(const std::string& path, Depth depth);

// A detached copy of a name in an open directory, with all mounts below it. Links are not followed.
Result<Fd> clone_entry(const Fd& dir, const std::string& name);

Status set_attributes(const std::string& path, std::uint64_t attributes, Depth depth);
Status set_attributes(const Fd& tree, std::uint64_t attributes, Depth depth);

// A new filesystem that is not mounted yet. Options are "key=value,key". `source` is what the table of mounts names.
Result<Fd> make_filesystem(const std::string& type, const std::string& options, std::uint64_t attributes,
                           const std::string& source = {});

// Does not follow symbolic links on the way to `path`: kLoop.
Status attach(const Fd& tree, const std::string& path);

// Attaches beneath the existing mount at `path`, which can then be unmounted. Fails before Linux 6.5.
Status attach_beneath(const Fd& tree, const std::string& path);

// Whether something is mounted on `path` itself.
bool is_mount(const std::string& path);

// Mounts something over itself, read-only or otherwise restricted.
Status restrict_in_place(const std::string& path, std::uint64_t attributes);

// Creates a directory or an empty file to mount on, with its parents, if there is none.
Status make_target(const std::string& path, bool is_directory);

}  // namespace warren::mounts
