// What an MCP server serves: an agent's namespace as one caller sees it, and the tools that may be called.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/clock.h"
#include "base/result.h"
#include "mcp/revision.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren::mcp {

struct ServiceOptions {
  std::vector<const Tool*> tools;  // in this order; what is not in it cannot be called
  bool is_read_only = false;
  std::string version;          // of the program
  std::string session;          // for the trail of tool calls
  std::size_t page_size = 100;  // of lists
};

// The tools that --tools selects: names and groups, with commas; "all". Without one, all but those of group "run".
// kInvalid for a word that is neither. With `is_read_only` only tools that change nothing.
Result<std::vector<const Tool*>> select_tools(std::string_view list, bool is_read_only);

// Thread-safe. What it refers to outlives it.
class Service {
 public:
  Service(Agent& agent, AgentNamespace& names, NamespaceView& view, Clock& clock, ServiceOptions options);

  Agent& agent() const { return agent_; }
  AgentNamespace& names() const { return names_; }
  NamespaceView& view() const { return view_; }
  Clock& clock() const { return clock_; }
  const ServiceOptions& options() const { return options_; }

  const Tool* find_tool(std::string_view name) const;  // null: none of that name is offered
  bool offers_group(std::string_view group) const;

  Json server_info(Revision revision) const;
  Json capabilities(Revision revision) const;
  std::string instructions() const;

  // What was changed so far survives a power cut.
  Status sync() const;

 private:
  Agent& agent_;
  AgentNamespace& names_;
  NamespaceView& view_;
  Clock& clock_;
  ServiceOptions options_;
};

}  // namespace warren::mcp
