// Files between the host and an agent: put and get.
//
// Both keep permission bits, times and symbolic links; owners and hard links are not kept. Devices,
// sockets and pipes are left out and reported. Memory is bounded by one copy buffer, and by the names
// of the directories in a tree.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

struct TransferReport {
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t symlinks = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> skipped;  // what is neither file, directory nor link
};

// Called now and then with what is done so far; may be empty.
using TransferProgress = std::function<void(const TransferReport&)>;

struct TransferTotals {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};
Result<TransferTotals> measure_host_tree(const std::string& host_path);
Result<TransferTotals> measure_agent_tree(FileSystem& fs, std::string_view path);

// Brings a file or a directory in, to `path` itself or, when that is a directory, into it. A link is
// followed only at `host_path` itself. Directories that exist are merged, files overwritten. Many
// files land together in one Unit; after an error, what landed before stays.
Result<TransferReport> put_tree(FileSystem& fs, const std::string& host_path, std::string_view path,
                                const TransferProgress& progress = {});

enum class OverwriteHost { kNo, kYes };
struct GetOptions {
  OverwriteHost overwrite = OverwriteHost::kNo;  // kNo: kExists for a file that is there
  TransferProgress progress;
};

// Takes a file or a directory out, to `host_path` itself or, when that is a directory, into it. What
// the agent has named is not trusted: nothing is written outside the target, no link that stands in it
// is followed, and set-user-id, set-group-id and sticky bits are dropped. Each file appears whole.
Result<TransferReport> get_tree(FileSystem& fs, std::string_view path, const std::string& host_path,
                                const GetOptions& options = {});

// Content between a file and a stream of unknown length, one buffer at a time; returns the bytes taken.
// Missing directories are made. A replaced file has its old content until the new one is complete (more
// than a buffer of it waits under a draft's name and then takes the place, a new node with the mode and
// owner of the old); what was appended before an error stays.
Result<std::uint64_t> replace_from_fd(FileSystem& fs, std::string_view path, int fd);
Result<std::uint64_t> append_from_fd(FileSystem& fs, std::string_view path, int fd);
Status read_to(FileSystem& fs, std::string_view path, const std::function<Status(Bytes)>& sink);

}  // namespace warren
