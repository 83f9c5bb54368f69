// What an MCP server serves: an agent's namespace as one caller sees it, and the tools that may be called.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/clock.h"
#include "base/result.h"
#include "mcp/open_questions.h"
#include "mcp/revision.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren::mcp {

struct ServiceOptions {
  std::vector<const Tool*> tools;  // in this order; what is not in it cannot be called
  bool is_read_only = false;
  std::string version;                                     // of the program
  std::string session;                                     // for the trail of tool calls
  std::size_t page_size = 100;                             // of lists
  std::function<Result<ContextIndex*>()> open_index = {};  // for tools that search (ToolContext)
  std::function<Result<Embedder*>()> open_embedder = {};   // for semantic memory by text (ToolContext)
  bool is_conformance = false;                             // offers the fixtures of mcp/conformance.h, too
  ToolReach reach = {};                                    // what tools may use outside of the agent file
  // A new view if the caller's rights have changed; null: they are the same. An error: it has none now. Empty: they
  // never change.
  std::function<Result<std::unique_ptr<NamespaceView>>()> renew_view = {};
};

// Who calls tools, and where.
struct ToolChoice {
  bool is_read_only = false;         // only tools that change nothing
  bool is_for_peer = false;          // another agent, which has rights to files only
  const ToolReach* reach = nullptr;  // null: every need counts as met
};

// The tools that --tools selects: names and groups, with commas; "all". nullopt: all that can be offered. kInvalid for
// an empty list, for a word that is neither, and for the name of a tool that cannot be offered.
Result<std::vector<const Tool*>> select_tools(std::optional<std::string_view> list, const ToolChoice& choice);

// A call of it may take minutes: it waits for a program that does what it likes.
bool is_long(const Tool& tool);

// Thread-safe. What it refers to outlives it.
class Service {
 public:
  Service(Agent& agent, AgentNamespace& names, NamespaceView& view, Clock& clock, ServiceOptions options);

  Agent& agent() const { return agent_; }
  AgentNamespace& names() const { return names_; }
  NamespaceView& view() const { return *view_.load(); }  // stays as long as the service
  // Checks whether the caller's rights have changed: before each request. kDenied if it has none any more.
  Status refresh_view();
  Clock& clock() const { return clock_; }
  const ServiceOptions& options() const { return options_; }

  // Of all clients. Others are refused: every one is a process, or several.
  static constexpr int kLongCallsMax = 8;
  // A place for a call that may take minutes (is_long); null: all are taken. Free when the last copy is gone.
  std::shared_ptr<void> begin_long_call();

  const Tool* find_tool(std::string_view name) const;  // null: none of that name is offered
  bool offers_group(std::string_view group) const;
  // Files are resources where a tool is offered that reads any of them; keys where one is that reads keys.
  bool serves_files() const { return find_tool("read_file") != nullptr || find_tool("vfs_operation") != nullptr; }
  bool serves_keys() const { return find_tool("kv_get") != nullptr; }
  bool serves_resources() const { return serves_files() || serves_keys() || options_.is_conformance; }
  bool is_for_peer() const { return view().caller().grants != nullptr; }

  // For a call of a tool by this server; `is_cancelled` outlives it.
  ToolContext tool_context(const std::atomic<bool>* is_cancelled) const;

  std::string root() const;  // what the caller may use is at or below it

  Json server_info(Revision revision) const;
  Json capabilities(Revision revision) const;
  std::string instructions() const;

  // Of all clients: a thread waits for each answer, and others must be left to receive them.
  bool begin_question() {
    if (questions_.fetch_add(1) < kQuestionsMax) return true;
    end_question();
    return false;
  }
  void end_question() { questions_.fetch_sub(1); }

  OpenQuestions& open_questions() { return open_questions_; }

  // What was changed so far survives a power cut.
  Status sync() const;

 private:
  Agent& agent_;
  AgentNamespace& names_;
  Clock& clock_;
  ServiceOptions options_;
  static constexpr int kQuestionsMax = 6;  // HTTP has eight threads; a session has kQuestionsOfSession at most
  std::atomic<int> long_calls_ = 0;
  std::atomic<int> questions_ = 0;
  OpenQuestions open_questions_;
  std::atomic<NamespaceView*> view_;
  std::mutex renewing_;
  std::vector<std::unique_ptr<NamespaceView>> renewed_;  // under renewing_; all of them, since requests may use them
};

}  // namespace warren::mcp
