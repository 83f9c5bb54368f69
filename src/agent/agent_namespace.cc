#include "agent/agent_namespace.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/running.h"
#include "base/path.h"
#include "os/host_files.h"
#include "os/host_stat.h"
#include "store/sqlite_fs.h"

namespace warren {
namespace {

// The file that holds an agent's working memory between commands: named after the agent's file, not its path, so that a
// new agent of the same name begins with nothing.
Result<std::string> working_file(const std::string& agent_path) {
  std::string folder = WARREN_TRY(runtime_folder());
  std::string whole = WARREN_TRY(canonical_host_path(agent_path));
  HostStat info = WARREN_TRY(host_stat(AT_FDCWD, whole.c_str()));
  return fmt::format("{}/working-{:x}-{:x}-{:x}.db", folder, info.st_dev, info.st_ino, info.generation);
}

}  // namespace

std::string agent_id_of(std::string_view path) {
  std::string_view name = base_name(path);
  if (name.ends_with(".db")) name.remove_suffix(3);
  return std::string(name);
}

Result<std::unique_ptr<AgentNamespace>> AgentNamespace::open(Agent& agent, WorkingMemory where, Clock& clock) {
  if (agent.overlay()) {
    return Error(Code::kUnsupported, "an agent with a base has no namespace",
                 "make an agent without a base for its memory: `warren init ID`");
  }
  std::unique_ptr<AgentNamespace> made(new AgentNamespace);
  made->agent_id_ = agent_id_of(agent.store().path());
  made->semantic_ = std::make_unique<SemanticIndex>(agent);
  FileSystem* working = WARREN_TRY(made->open_working(agent.store().path(), where, clock).within("open /mem/working"));
  made->namespace_ = WARREN_TRY(Namespace::open(agent.fs(), *working,
                                                {.agent = made->agent_id_,
                                                 .is_read_only = agent.store().is_read_only(),
                                                 .working_backend = made->memory_ ? "memory" : "runtime folder"},
                                                clock));
  return made;
}

Result<FileSystem*> AgentNamespace::open_working(const std::string& agent_path, WorkingMemory where, Clock& clock) {
  if (where == WorkingMemory::kProcess || agent_path == kMemoryAgent) {
    memory_ = std::make_unique<MemoryFs>(clock);
    return memory_.get();
  }
  std::string file = WARREN_TRY(working_file(agent_path));
  StoreOptions options{.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = Commits::kEach};
  Result<std::unique_ptr<Store>> store = Store::open(file, options, clock);
  if (!store.ok() && store.error().code() == Code::kExists) {
    options.mode = OpenMode::kReadWrite;
    store = Store::open(file, options, clock);
  }
  store_ = WARREN_TRY(std::move(store));
  return &store_->fs();
}

}  // namespace warren
