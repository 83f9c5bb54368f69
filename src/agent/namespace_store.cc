#include "agent/namespace_store.h"

#include <fmt/format.h>

#include "base/path.h"
#include "os/host_files.h"

namespace warren {
namespace {

Status remove_with_logs(const std::string& file) {
  for (const char* suffix : {"", "-wal", "-shm"}) WARREN_TRY(remove_host_file(file + suffix));
  return Ok{};
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

Result<std::unique_ptr<Store>> open_or_make_store(const std::string& file, const StoreOptions& options, Clock& clock) {
  StoreOptions how = options;
  std::optional<struct stat> there = WARREN_TRY(find_host_file(file));
  if (!there) how.mode = OpenMode::kCreate;
  Result<std::unique_ptr<Store>> store = Store::open(file, how, clock);
  if (store.ok() || there) return store;
  // Whatever the error: if somebody else has made it meanwhile, it is theirs that counts.
  there = WARREN_TRY(find_host_file(file));
  return there ? Store::open(file, options, clock) : std::move(store);
}

Result<std::unique_ptr<Store>> open_namespace_store(const std::string& agent_path, const StoreOptions& options,
                                                    Clock& clock) {
  std::string file = namespace_file_of(agent_path);
  if (options.mode == OpenMode::kReadOnly && !WARREN_TRY(find_host_file(file))) {
    return Error(Code::kNotFound, fmt::format("{} has no namespace yet", quote(agent_path)),
                 "it is made by the first `warren vfs` that may write, or by `warren run`");
  }
  return open_or_make_store(file, options, clock).within("open the agent's namespace");
}

void prepare_namespace_file(const std::string& agent_path, Clock& clock) {
  Result<std::optional<std::string>> there = find_namespace_file(agent_path);
  if (!there.ok() || *there) return;
  StoreOptions options{.mode = OpenMode::kCreate, .durability = Durability::kProcess};
  Store::open(namespace_file_of(agent_path), options, clock).ignore("opening the namespace tries it again");
}

Status remove_namespace_file(const std::string& agent_path) { return remove_with_logs(namespace_file_of(agent_path)); }

}  // namespace warren
