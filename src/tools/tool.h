// One verb for models: its name, its schemas, its function. Called by the command line, MCP and the SDKs.
#pragma once

#include <atomic>
#include <chrono>
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
class ContextIndex;
class Embedder;
class NamespaceView;
struct Tool;

// What a failed call tells a model: what went wrong and what to call next.
struct ToolError {
  std::string type;  // "not_found", "invalid_argument", "conflict", "no_text_content", "denied", "limit", "internal", …
  std::string message;           // for the model and people
  std::string next_action_hint;  // a ready next call or instruction; call_tool leaves none empty
};

struct ToolBlob {
  std::string bytes;
  std::string mime;
  std::string uri;  // vfs://agent/path; may be empty
};

// The answer of a call. Exactly what outputSchema promises in `structured`, unless `error` is set.
struct ToolAnswer {
  Json structured = json_object(6);
  std::string text;  // for models that read text; empty: the structured value is shown
  std::optional<ToolBlob> blob = std::nullopt;
  std::optional<ToolError> error = std::nullopt;
};

struct ToolProgress {
  double done = 0;
  std::optional<double> total;
  std::string message;
};

// The agent's place at a relay: whose mail the relay tools read and send.
struct RelayPlace {
  std::string root;   // the relay's directory
  std::string name;   // of the agent there, which need not be its id
  std::string token;  // that the relay gave to an agent it started; may be empty
};

// How a program ended that a door started for a tool.
struct ProgramEnd {
  int status = 0;  // its exit status, or 128 plus the signal that ended it
  std::string output;
  std::string errors;
  bool is_cut = false;    // there was more of one of the two
  bool is_ended = false;  // by us: it took too long, or the call was cancelled
};

// A command for the agent's sandbox.
struct SandboxCommand {
  std::vector<std::string> words;
  std::chrono::milliseconds timeout{};
  std::size_t output_bytes_max = 0;                 // of each stream; the rest is dropped
  const std::atomic<bool>* is_cancelled = nullptr;  // set: the command is ended
};

// Which changes of the agent are to be written to its base.
struct ApplyRequest {
  std::vector<std::string> paths;  // in the base, with '/' first; empty: all
  bool is_dry_run = false;
  bool is_recovery = false;  // only finish or undo an apply that was interrupted
  std::string if_state;      // nothing is written if the changes are not in this state, which a dry run has printed
  const std::atomic<bool>* is_cancelled = nullptr;
};

// What a door lets tools reach outside of the agent file. The operator decides; a tool whose need is not met is not
// offered (Tool::need), and it is an error to call it all the same.
struct ToolReach {
  std::optional<RelayPlace> relay = std::nullopt;
  std::function<Result<ProgramEnd>(const SandboxCommand&)> run = {};
  std::function<Result<ProgramEnd>(const ApplyRequest&)> apply = {};  // its output is what `warren apply --json` prints
};

// The answer of whoever uses the client to the question whether something may be lost. kPending: it comes with another
// call, and this one ends.
enum class Consent { kYes, kNo, kPending };

// The text of the document that was read last, so that reading all of it in pages takes it out once.
struct LastDocument {
  std::string key;  // its kind and revision
  std::string text;
};

struct ConsentQuestion {
  std::string text;
  std::string state;  // of what it is about, as a hash or a word: the answer does not count for another state
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
  // The search index of the agent, which the door opens when it is first asked for and keeps. From any thread. Empty:
  // this door has no search.
  std::function<Result<ContextIndex*>()> open_index = {};
  // The user's embedder, opened and kept likewise; null: none is configured. From any thread. Empty: this door has
  // none.
  std::function<Result<Embedder*>()> open_embedder = {};
  const ToolReach* reach = nullptr;  // null: nothing
  // Asks before something is lost. Empty: nobody can be asked, and the tool does what it was called for.
  std::function<Result<Consent>(const ConsentQuestion&)> ask = {};  // an error: why there is no answer
  LastDocument* last_document = nullptr;                            // kept between calls; null: it is not
  const std::vector<const Tool*>* offered = nullptr;                // hints name only these tools; null: all
};

struct ToolHints {
  bool is_read_only = false;
  bool is_destructive = false;
  bool is_idempotent = false;
};

// What a tool needs that not every door has (ToolReach).
enum class ToolNeed { kNothing, kRelay, kRun, kApply };

struct Tool {
  std::string_view name;         // "context_read"
  std::string_view title;        // "Read a file"
  std::string_view group;        // "files", "keys", "vfs", "context", "checkpoints", "relay", "memory", "session"
  std::string_view description;  // for a model: what it does, when to use it, what it returns, one example
  ToolHints hints;
  Json (*input_schema)();
  Json (*output_schema)();
  ToolAnswer (*call)(ToolContext&, const Json& arguments);  // arguments have passed check_arguments()
  ToolNeed need = ToolNeed::kNothing;
  std::string_view alias_of = {};  // another name of this tool: it can be called, and is not listed beside it
};

bool is_met(ToolNeed need, const ToolReach& reach);
// Whether another agent may call it (Caller::grants): tools that reach nothing but files, through the caller's view.
bool is_for_peers(const Tool& tool);

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
