// One `warren run`: finding or starting the session, running the command in it, and what happens at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "cli/context.h"
#include "cli/help.h"
#include "sandbox/plan.h"

namespace warren::cli {

// What a session holds over its base.
struct ChangeCounts {
  std::uint64_t added = 0;
  std::uint64_t modified = 0;
  std::uint64_t deleted = 0;
  std::uint64_t renamed = 0;
  std::uint64_t bytes = 0;  // of content that is new or changed
};

// How the summary learns what changed: the one place where the diff of a session comes in. Given the agent of the
// session, open to be read.
using CountChanges = std::function<Result<ChangeCounts>(Agent&)>;

enum class AtEnd {
  kKeepIfChanged,  // a new session in which nothing happened goes again
  kKeep,
  kDiscard,
};

struct RunOptions {
  std::optional<std::string> session;  // to join, resume or make
  std::optional<std::string> base;     // as typed; default: the working directory
  std::vector<std::string> allow;
  std::vector<std::string> read;
  std::vector<std::string> hide;
  DefaultAllows default_allows = DefaultAllows::kWarren;
  bool has_network = true;
  bool passthrough = false;
  AtEnd at_end = AtEnd::kKeepIfChanged;
  std::vector<std::string> command;  // empty: the user's shell
  bool tells_walls = false;
  Dialect dialect = Dialect::kWarren;
  CountChanges count_changes;  // empty: the summary has no counts
};

// The exit status: the command's, or one of those in sandbox/enter.h. Tells its own failures itself.
int run_session(Context& context, const RunOptions& options);

}  // namespace warren::cli
