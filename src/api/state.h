// The internal state of the public objects.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "api/own_blobs.h"
#include "base/clock.h"
#include "vfs/namespace.h"

namespace warren::v1 {

// Not in <warren/v1/...>, so that users never see an internal type. Each member uses those before it.
struct AgentState {
  SystemClock clock;
  std::unique_ptr<warren::Agent> agent;  // null in a view of the namespace

  std::vector<MountSpec> mounts;                  // of the namespace
  std::vector<std::unique_ptr<OwnBlobs>> stores;  // of the namespace: those of the user
  std::vector<MountedStore> mounted_stores;

  std::unique_ptr<AgentNamespace> names;             // by AgentNamespace::open_once
  std::mutex names_mutex;                            // guards the pointers below; nothing is opened under it
  std::array<std::unique_ptr<AgentState>, 2> views;  // of the namespace: user and kernel space
  std::unique_ptr<NamespaceView> shown;              // what Files works on, in a view
};

}  // namespace warren::v1
