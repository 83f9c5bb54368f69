// What `warren run` tells on standard error before and after the command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/sessions.h"
#include "cli/context.h"
#include "cli/run_session.h"

namespace warren::cli {

struct RunFacts {
  std::string id;
  std::string base;
  std::vector<std::string> allowed;
  bool has_own_network = false;
};

void print_start(Context& context, const RunFacts& facts, std::string_view how);
void print_walls(Context& context, const RunFacts& facts, int landlock_abi);

// What changed, as far as somebody counts it, and what to type next.
void print_summary(Context& context, const SessionDir& session, const RunOptions& options);

// The lines that scripts for AgentFS look for.
void print_agentfs_banner(Context& context, const RunFacts& facts);
void print_agentfs_joining(Context& context, const RunFacts& facts);
void print_agentfs_end(Context& context, const std::string& id);

void tell_failure(Context& context, Dialect dialect, const Error& error);

}  // namespace warren::cli
