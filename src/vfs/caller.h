// Who uses a namespace. A door opens it as somebody, and what judges and records holds this value; no call carries it.
#pragma once

#include <string>
#include <string_view>

namespace warren {

// The agent itself, or the side that operates it: the operator's command line, the relay.
enum class Space { kUser, kKernel };

// The door of a namespace that is mounted; plain mounts are "mount" and "run".
inline constexpr std::string_view kNamespaceDoor = "namespace";

struct Caller {
  std::string agent;  // its id
  Space space = Space::kUser;
  std::string door;        // "vfs", "mount", "run", "mcp", "library"
  std::string session;     // may be empty
  std::string trace = {};  // of what it does, unless a TraceScope says another; may be empty
};

}  // namespace warren
