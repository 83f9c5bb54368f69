// Copies files between the host and an agent: put and get.
//
// Both keep permission bits, times and symbolic links, but not owners and hard links. Devices, sockets and pipes are
// skipped and reported. Memory is bounded by one copy buffer plus the names of the directories in a tree.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
  std::vector<std::string> skipped;  // paths of devices, sockets and pipes
};

// Called now and then with the progress so far; may be empty.
using TransferProgress = std::function<void(const TransferReport&)>;

struct TransferTotals {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};
Result<TransferTotals> measure_host_tree(const std::string& host_path);
Result<TransferTotals> measure_agent_tree(FileSystem& fs, std::string_view path);

// Copies a host file or directory to `path`, or into it if it is a directory. Only a link at `host_path` itself is
// followed. Existing directories are merged, files overwritten. Many files are committed in one Unit; after an error,
// earlier Units stay.
Result<TransferReport> put_tree(FileSystem& fs, const std::string& host_path, std::string_view path,
                                const TransferProgress& progress = {});

enum class OverwriteHost { kNo, kYes };
struct GetOptions {
  OverwriteHost overwrite = OverwriteHost::kNo;  // kNo: kExists for an existing file
  TransferProgress progress;
};

// Copies an agent's file or directory to `host_path`, or into it if it is a directory. The agent's names are not
// trusted: nothing is written outside the target, existing links in it are not followed, and set-user-id, set-group-id
// and sticky bits are dropped. Each file appears complete.
Result<TransferReport> get_tree(FileSystem& fs, std::string_view path, const std::string& host_path,
                                const GetOptions& options = {});

// Copies a stream of unknown length to a file, one buffer at a time, and returns the number of bytes. Missing
// directories are created. A replaced file keeps its old content until the new content is complete: more than a buffer
// is written to a draft, a new node with the old mode and owner, which then replaces the file. Data appended before an
// error stays.
Result<std::uint64_t> replace_from_fd(FileSystem& fs, std::string_view path, int fd,
                                      std::optional<std::int64_t> expires_at_ms = std::nullopt);  // fs/expiry.h
Result<std::uint64_t> append_from_fd(FileSystem& fs, std::string_view path, int fd);
Status read_to(FileSystem& fs, std::string_view path, const std::function<Status(Bytes)>& sink);

}  // namespace warren
