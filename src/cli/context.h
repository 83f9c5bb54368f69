// What every command is given: where to write, what time it is, which agent is meant.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "agent/agent.h"
#include "base/clock.h"
#include "cli/show/output.h"
#include "cli/syntax/args.h"

namespace warren::cli {

struct Context {
  Output& out;
  Output& err;
  Clock& clock;
  Environment environment;
  const Command& root;
  int input = 0;  // standard input
};

enum class Use { kRead, kWrite };

// The agent that the command's ID argument names.
Result<std::unique_ptr<Agent>> open_agent(Context& context, const Arguments& args, Use use);
// The same for commands that are not about files: an agent's state can be had though its base is gone.
Result<std::unique_ptr<Agent>> open_state(Context& context, const Arguments& args, Use use);

// Standard input, whole, for values that are small by nature.
Result<std::string> read_input(Context& context, std::size_t size_bytes_max);

// For options that do not go together: says so, and the exit status is that of a usage error.
Exit refuse(Context& context, std::string_view message);

}  // namespace warren::cli
