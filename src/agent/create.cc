#include "agent/create.h"

#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "os/error.h"
#include "os/host_files.h"
#include "store/fsck.h"
#include "store/overlay_schema.h"
#include "store/store.h"

namespace warren {
namespace {

// Removes the files that belong to an agent file: SQLite's and our index.
Status remove_companions(const std::string& path) {
  for (std::string_view suffix : {"-wal", "-shm"}) {
    WARREN_TRY(remove_host_file(path + std::string(suffix)));
  }
  std::string_view stem(path);
  if (stem.ends_with(".db")) stem.remove_suffix(3);
  WARREN_TRY(remove_host_file(std::string(stem) + ".index.db"));
  return Ok{};
}

Status remove_agent_files(const std::string& path) {
  WARREN_TRY(remove_host_file(path));
  return remove_companions(path);
}

Status check_chunk_bytes(std::uint32_t bytes) {
  if (bytes >= limits::kChunkBytesMin && bytes <= limits::kChunkBytesMax) return Ok{};
  return Error(Code::kInvalid, fmt::format("the chunk size cannot be {} bytes", bytes),
               fmt::format("choose a size from {} to {} bytes", limits::kChunkBytesMin, limits::kChunkBytesMax));
}

Result<std::string> check_base(const std::string& base) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(base));
  if (!there) return Error(Code::kNotFound, fmt::format("the base directory {} does not exist", quote(base)));
  if (!S_ISDIR(there->st_mode)) {
    return Error(Code::kNotDirectory, fmt::format("the base {} is not a directory", quote(base)));
  }
  return canonical_host_path(base);
}

Status fill_agent(const CreatedAgent& agent, const CreateOptions& options, Clock& clock) {
  auto store =
      WARREN_TRY(Store::open(agent.path, {.mode = OpenMode::kCreate, .chunk_bytes = options.chunk_bytes}, clock));
  if (!agent.base) return Ok{};
  return make_overlay(*store, *agent.base);
}

// The -wal file exists as long as any process has the agent open; ours goes away when we close it.
Status check_not_open(const std::string& path, Clock& clock) {
  Result<std::unique_ptr<Store>> store = Store::open(path, {}, clock);
  if (!store.ok()) {
    if (store.error().code() != Code::kCorrupt) return std::move(store).take_error();
    return Ok{};  // too damaged to open, which is a reason to restore it
  }
  std::move(store).take_value().reset();
  if (WARREN_TRY(find_host_file(path + "-wal"))) {
    return Error(Code::kBusy, fmt::format("{} is open in another process", quote(path)),
                 "stop that process, then try again");
  }
  return Ok{};
}

Status check_backup(const std::string& file, Clock& clock) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(file));
  if (!there) return Error(Code::kNotFound, fmt::format("backup file {} does not exist", quote(file)));
  FsckReport report = WARREN_TRY(check_agent(file, clock));
  if (report.clean()) return Ok{};
  return Error(Code::kCorrupt,
               fmt::format("{} is damaged: {} violations, the first: {}", quote(file), report.violations.size(),
                           report.violations.front().message),
               fmt::format("`warren fsck {} --repair` may help", file));
}

Status move_into_place(const std::string& draft, const std::string& path, Replace replace) {
  if (replace == Replace::kYes) WARREN_TRY(remove_companions(path));
  unsigned flags = replace == Replace::kYes ? 0U : static_cast<unsigned>(RENAME_NOREPLACE);
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), flags) != 0) {
    return system_error(errno, fmt::format("rename {} to {}", quote(draft), quote(path)));
  }
  return sync_host_dir(std::string(directory_of(path)));
}

}  // namespace

Result<CreatedAgent> create_agent(const CreateOptions& options, Clock& clock) {
  CreatedAgent agent;
  agent.id = options.id ? *options.id : fmt::format("agent-{}", clock.now().seconds);
  WARREN_TRY(check_agent_id(agent.id));
  WARREN_TRY(check_chunk_bytes(options.chunk_bytes));
  if (options.base) agent.base = WARREN_TRY(check_base(*options.base));
  agent.path = path_of_agent(agent.id);
  if (WARREN_TRY(find_host_link(agent.path))) {
    if (options.replace == Replace::kNo) {
      return Error(Code::kExists, fmt::format("agent {} already exists at {}", quote(agent.id), quote(agent.path)),
                   "--force replaces it and deletes everything in it");
    }
    WARREN_TRY(remove_agent_files(agent.path));
  }
  WARREN_TRY(make_host_dirs(std::string(kAgentsDir), 0755));
  Status filled = fill_agent(agent, options, clock);
  if (!filled.ok()) {
    if (filled.error().code() != Code::kExists) {
      remove_agent_files(agent.path).ignore("the first error is the one to report");
    }
    return std::move(filled).take_error();
  }
  return agent;
}

Result<std::string> restore_agent(const std::string& id_or_path, const std::string& file, Replace replace,
                                  Clock& clock) {
  WARREN_TRY(check_backup(file, clock));
  Result<std::string> there = locate_agent(id_or_path);
  if (!there.ok() && !is_agent_id(id_or_path)) return there;
  std::string path = there.ok() ? *there : path_of_agent(id_or_path);
  if (path == kMemoryAgent) return Error(Code::kInvalid, "cannot restore into an agent in memory");
  if (there.ok()) {
    if (replace == Replace::kNo) {
      return Error(Code::kExists, fmt::format("agent {} already exists at {}", quote(id_or_path), quote(path)),
                   "--force replaces it and deletes its current content");
    }
    WARREN_TRY(check_not_open(path, clock));
  } else {
    WARREN_TRY(make_host_dirs(std::string(kAgentsDir), 0755));
  }
  auto backup = WARREN_TRY(Store::open(file, {.mode = OpenMode::kReadOnly}, clock));
  std::string draft = fmt::format("{}.restore-{}", path, ::getpid());
  Status done = backup->backup_to(draft);
  if (done.ok()) done = move_into_place(draft, path, replace);
  if (!done.ok()) {
    remove_host_file(draft).ignore("the first error is the one to report");
    return std::move(done).take_error();
  }
  return path;
}

}  // namespace warren
