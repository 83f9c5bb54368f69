// Who uses a namespace. A door opens it as somebody, and what judges and records holds this value; no call carries it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace warren {

class Grants;

// The agent itself, or the side that operates it: the operator's command line, the relay.
enum class Space { kUser, kKernel };
std::string_view name_of(Space space);  // "user", "kernel"

// The door of a namespace that is mounted; plain mounts are "mount" and "run".
inline constexpr std::string_view kNamespaceDoor = "namespace";

struct Caller {
  std::string agent;  // its id
  Space space = Space::kUser;
  std::string door;        // "vfs", "mount", "run", "mcp", "library", "host"
  std::string session;     // may be empty
  std::string trace = {};  // of what it does, unless a TraceScope says another; may be empty
  // Of another agent (user space): what it was granted here, and nothing else is there for it. Null: the agent itself,
  // or its operator.
  std::shared_ptr<const Grants> grants = nullptr;
  // A directory, normalised: what is not at or below it may not be used, whatever the rules say. "": everything may.
  std::string root = {};
};

// Whether the caller's root, if it has one, leaves this path to it.
bool is_in_root(const Caller& caller, std::string_view path);

}  // namespace warren
