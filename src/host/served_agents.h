// The agents of a host: found by id in one folder, opened when they are first used, and open until the host ends, since
// their working memory is in this process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "agent/checkpoints/signal_checkpoint.h"
#include "base/clock.h"
#include "base/result.h"
#include "vfs/grants.h"
#include "vfs/namespace.h"

namespace warren {

// An agent and the views of everybody who uses it. Thread-safe.
class HostedAgent {
 public:
  static Result<std::unique_ptr<HostedAgent>> open(const std::string& path, const AgentNamespaceOptions& options,
                                                   Clock& clock);
  AgentNamespace& names() { return *names_; }
  // Of this agent alone; returns what take_signal_checkpoint() does.
  std::vector<std::string> take_checkpoint() { return take_signal_checkpoint(*agent_, &names_->mounted()); }

  // The agent's own. One for all its connections, so that a limit of the policy holds for them together.
  std::shared_ptr<NamespaceView> own_view();
  // Of another agent; kept while the generation stays the same.
  std::shared_ptr<NamespaceView> peer_view(const std::string& peer, std::uint64_t generation, const Grants& grants);

 private:
  HostedAgent() = default;
  struct View {
    std::uint64_t generation = 0;
    std::shared_ptr<NamespaceView> fs;  // shared with the requests that are using it
  };

  std::unique_ptr<Agent> agent_;
  std::unique_ptr<AgentNamespace> names_;
  std::mutex mutex_;
  std::shared_ptr<NamespaceView> own_;  // destroyed before the namespace, like the following
  std::map<std::string, View> peers_;
};

// What an agent's namespace is put together from.
using NamespaceOf = std::function<Result<AgentNamespaceOptions>(const std::string& agent_path)>;

// Thread-safe. The clock outlives it.
class ServedAgents {
 public:
  // `folder` has a file <id>.db for each agent. `only`: these; empty: all, also those made later.
  ServedAgents(std::string folder, std::vector<std::string> only, NamespaceOf namespace_of, Clock& clock);

  // kNotFound: the host does not serve it. kUnavailable: it cannot be opened; the next call tries again.
  // An agent whose file was replaced is opened again: what is written to a file without a name is lost.
  Result<std::shared_ptr<HostedAgent>> get(std::string_view id);
  bool is_served(std::string_view id) const { return find_file(id).has_value(); }
  std::size_t open_count() const;
  std::vector<std::string> list_open() const;  // ids of those that were used

 private:
  struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const FileIdentity&) const = default;
  };
  // One thread opens an agent, others that want the same one wait, and nobody else does.
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<HostedAgent> agent;  // shared with the requests that are using it
    FileIdentity file;
  };
  std::string path_of(std::string_view id) const;
  std::optional<FileIdentity> find_file(std::string_view id) const;
  std::shared_ptr<Slot> slot_of(std::string_view id);
  std::shared_ptr<Slot> take_slot(std::string_view id);  // out of the map; null if there is none

  std::string folder_;
  std::vector<std::string> only_;
  NamespaceOf namespace_of_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>, std::less<>> slots_;  // of agents that were used
};

}  // namespace warren
