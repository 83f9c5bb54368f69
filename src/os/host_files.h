// Files and directories of the host, for those who bring them in or take them out.
//
// The functions "below" a directory never follow a symbolic link and never leave it: what stands in
// a tree may have been put there by someone else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Follows links: the path is the user's own.
Result<std::optional<struct stat>> find_host_file(const std::string& path);
// Of the name itself, also when it is a link.
Result<std::optional<struct stat>> find_host_link(const std::string& path);
Result<std::string> canonical_host_path(const std::string& path);

// Whole content; kTooLarge beyond the limit.
Result<std::string> read_host_file(const std::string& path, std::size_t size_bytes_max);
// The file has the old content or the new one, never a part: written beside it and renamed.
Status replace_host_file(const std::string& path, std::string_view content, std::uint32_t mode);
// Gives a finished file its name, durably; kExists if something has the name, whatever the race.
Status publish_host_file(const std::string& draft, const std::string& path);
// Makes missing parents too; fine when it is there.
Status make_host_dirs(const std::string& path, std::uint32_t mode);
Status sync_host_dir(const std::string& path);  // the names in it
// Whether there was one.
Result<bool> remove_host_file(const std::string& path);

Status change_host_directory(const std::string& path);  // of the whole process

struct HostEntry {
  std::string name;
  struct stat attributes;
};
// Sorted by name, without "." and "..". An entry that goes away meanwhile is left out.
Result<std::vector<HostEntry>> list_host_dir(int dir);

Result<Fd> open_host_dir(const std::string& path);                   // follows links
Result<Fd> open_host_dir_below(int dir, std::string_view relative);  // "" is the directory itself
Result<Fd> open_host_file_below(int dir, std::string_view name);     // to read; kInvalid if it is no regular file
Result<std::string> read_host_link_below(int dir, std::string_view name);

}  // namespace warren
