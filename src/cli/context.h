// The context of a command: its input and output, the clock, the environment.
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

// Opens the agent that the command's ID argument names.
Result<std::unique_ptr<Agent>> open_agent(Context& context, const Arguments& args, Use use);
// Opens that agent without its base, for commands that do not read files: they work even if the base is gone.
// `door` is for the audit trail; without one nothing is recorded.
Result<std::unique_ptr<Agent>> open_state(Context& context, const Arguments& args, Use use, std::string_view door = {});

// The end of a command that has read from the agent: fails if that could not be recorded, where it is to be.
Result<Exit> end_reading(Agent& agent);

// The trace that the command belongs to, for the audit trail: WARREN_TRACE_ID. Empty if none is set.
std::string trace_of(Context& context);

// How wide text for people may be: COLUMNS, or the terminal's width, or 80.
std::size_t columns_of_output(const Context& context, const Output& out);

// Reads all of standard input; fails with kTooLarge above the limit.
Result<std::string> read_input(Context& context, std::size_t size_bytes_max);

// As the program does when a command fails: the message, and the hint if there is one.
void print_error(Context& context, const Error& error);

// A warning about what has failed after the command's own work was done.
void warn_if_not(Context& context, const Status& done);
// One line on standard error if nothing is recorded for want of a key, where nobody has asked for it.
void warn_if_unrecorded(Context& context, const Agent& agent);

// Prints a usage error, for example about options that cannot be combined.
Exit refuse(Context& context, std::string_view message);

}  // namespace warren::cli
