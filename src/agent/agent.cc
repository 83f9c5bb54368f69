#include "agent/agent.h"

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "store/sqlite_fs.h"

namespace warren {

Result<std::unique_ptr<Agent>> Agent::open(const AgentOptions& options, Clock& clock) {
  std::string path = WARREN_TRY(locate_agent(options.id_or_path));
  StoreOptions how{.mode = options.mode, .durability = options.durability, .commits = options.commits};
  if (path == kMemoryAgent) how.mode = OpenMode::kCreate;
  auto store = WARREN_TRY(Store::open(path, how, clock));
  if (options.mode == OpenMode::kReadWrite && !store->schema().is_current()) {
    return Error(
        Code::kReadOnly,
        fmt::format("{} has the older schema {} and can only be read", quote(path), name_of(store->schema().version)),
        fmt::format("`warren migrate {}` brings it up to date", options.id_or_path));
  }
  return std::unique_ptr<Agent>(new Agent(std::move(store)));
}

FileSystem& Agent::fs() { return store_->fs(); }

}  // namespace warren
