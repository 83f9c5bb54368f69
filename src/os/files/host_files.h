// Files and directories of the host, for importing and exporting.
//
// The functions that work "below" a directory never follow a symbolic link and never leave it: anyone may have put
// things into the tree.
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

// Follows links: the path was given by the user.
Result<std::optional<struct stat>> find_host_file(const std::string& path);
// Does not follow a link at the end.
Result<std::optional<struct stat>> find_host_link(const std::string& path);
Result<std::string> canonical_host_path(const std::string& path);

// The whole content; kTooLarge beyond the limit.
Result<std::string> read_host_file(const std::string& path, std::size_t size_bytes_max);
// Atomic: written to a temporary file beside it, which is renamed over it.
Status replace_host_file(const std::string& path, std::string_view content, std::uint32_t mode);
// Gives a finished file its name, durably. kExists if the name is taken, without a race.
Status publish_host_file(const std::string& draft, const std::string& path);
// Creates missing parents too; succeeds if the directory exists.
Status make_host_dirs(const std::string& path, std::uint32_t mode);
Status sync_host_dir(const std::string& path);  // the directory's entries
// Returns whether the file existed.
Result<bool> remove_host_file(const std::string& path);

Status change_host_directory(const std::string& path);  // for the whole process

struct HostEntry {
  std::string name;
  struct stat attributes;
};
// Sorted by name, without "." and "..". An entry removed during the listing is left out.
Result<std::vector<HostEntry>> list_host_dir(int dir);

Result<Fd> open_host_dir(const std::string& path);                   // follows links
Result<Fd> open_host_dir_below(int dir, std::string_view relative);  // "" is the directory itself
Result<Fd> open_host_file_below(int dir, std::string_view name);  // for reading; kInvalid if it is not a regular file
Result<std::string> read_host_link_below(int dir, std::string_view name);

}  // namespace warren
