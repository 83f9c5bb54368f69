#include "agent/namespace_store.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/host_files.h"

namespace warren {
namespace {

Status remove_with_logs(const std::string& file) {
  for (const char* suffix : {"", "-wal", "-shm"}) WARREN_TRY(remove_host_file(file + suffix));
  return Ok{};
}

// Written under another name first, so that an existing file is always complete. Another process may be faster.
Status make_namespace_file(const std::string& file, Durability durability, Clock& clock) {
  std::string draft = fmt::format("{}.new-{}", file, ::getpid());
  WARREN_TRY(remove_with_logs(draft));  // of a killed process that had our number
  {
    auto store = WARREN_TRY(Store::open(draft, {.mode = OpenMode::kCreate, .durability = durability}, clock));
    WARREN_TRY(store->database().empty_log());  // the log keeps the draft's name
  }
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) == 0) return Ok{};
  int number = errno;
  remove_with_logs(draft).ignore("the first error is the one to report");
  if (number == EEXIST) return Ok{};
  return system_error(number, fmt::format("make {}", quote(file)));
}

}  // namespace

std::string namespace_file_of(std::string_view agent_path) {
  if (agent_path.ends_with(".db")) agent_path.remove_suffix(3);
  return fmt::format("{}.namespace.db", agent_path);
}

Result<std::optional<std::string>> find_namespace_file(const std::string& agent_path) {
  std::string file = namespace_file_of(agent_path);
  std::optional<struct stat> there = WARREN_TRY(find_host_file(file));
  return there ? std::optional(std::move(file)) : std::nullopt;
}

Result<std::unique_ptr<Store>> open_namespace_store(const std::string& agent_path, const StoreOptions& options,
                                                    Clock& clock) {
  std::string file = namespace_file_of(agent_path);
  if (!WARREN_TRY(find_host_file(file))) {
    if (options.mode == OpenMode::kReadOnly) {
      return Error(Code::kNotFound, fmt::format("{} has no namespace yet", quote(agent_path)),
                   "it is made by the first `warren vfs` that may write, or by `warren run`");
    }
    WARREN_TRY(make_namespace_file(file, options.durability, clock));
  }
  return Store::open(file, options, clock).within("open the agent's namespace");
}

Status remove_namespace_file(const std::string& agent_path) { return remove_with_logs(namespace_file_of(agent_path)); }

}  // namespace warren
