// One verb for models: its name, its schemas, its function. Called by the command line, MCP and the SDKs.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"

namespace warren {

class Agent;
class AgentNamespace;
class NamespaceView;

// What a failed call tells a model: what went wrong and what to call next.
struct ToolError {
  std::string type;  // "not_found", "invalid_argument", "conflict", "no_text_content", "denied", "limit", "internal", …
  std::string message;           // for the model and people
  std::string next_action_hint;  // a ready next call or instruction; may be empty
};

struct ToolBlob {
  std::string bytes;
  std::string mime;
  std::string uri;  // vfs://agent/path; may be empty
};

// The answer of a call. Exactly what outputSchema promises in `structured`, unless `error` is set.
struct ToolAnswer {
  Json structured = Json::object();
  std::string text;  // for models that read text; empty: the structured value is shown
  std::optional<ToolBlob> blob = std::nullopt;
  std::optional<ToolError> error = std::nullopt;
};

struct ToolProgress {
  double done = 0;
  std::optional<double> total;
  std::string message;
};

// What one call may use. The door fills it in and keeps it alive during the call.
struct ToolContext {
  Agent& agent;
  AgentNamespace& names;
  NamespaceView& view;  // as the caller of this door: every file access of a tool goes through it
  Clock& clock;
  std::string session;  // for the tool-call trail; may be empty
  bool is_read_only = false;
  const std::atomic<bool>* is_cancelled = nullptr;  // set by another thread; long work looks at it
  std::function<void(const ToolProgress&)> progress = {};
};

struct ToolHints {
  bool is_read_only = false;
  bool is_destructive = false;
  bool is_idempotent = false;
};

struct Tool {
  std::string_view name;         // "context_read"
  std::string_view title;        // "Read a file"
  std::string_view group;        // "files", "keys", "vfs", "context", "checkpoints", "relay", "memory", "run"
  std::string_view description;  // for a model: what it does, when to use it, what it returns, one example
  ToolHints hints;
  Json (*input_schema)();
  Json (*output_schema)();
  ToolAnswer (*call)(ToolContext&, const Json& arguments);  // arguments have passed check_arguments()
};

// Every tool, in the order of groups and names; always the same.
const std::vector<const Tool*>& all_tools();
const Tool* find_tool(std::string_view name);  // null: none of that name

// Whether the arguments are what the tool's input schema asks for (types, required, enum, limits, no unknown names).
std::optional<ToolError> check_arguments(const Tool& tool, const Json& arguments);

// Checks the arguments, refuses changes where the context is read-only, calls the tool and records the call with its
// parameters, result or error and true duration in the tool-call trail of the agent.
ToolAnswer call_tool(ToolContext& context, const Tool& tool, const Json& arguments);

// {"is_error": true, "error_type", "message", "next_action_hint"}
Json to_json(const ToolError& error);
// An error of ours as one for a model.
ToolError tool_error(const Error& error, std::string hint = {});

}  // namespace warren
