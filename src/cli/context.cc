#include "cli/context.h"

#include <algorithm>

#include "base/ascii.h"
#include "os/fd.h"

namespace warren::cli {

namespace {

AgentOptions options_to_open(Context& context, const Arguments& args, Use use, std::string_view door) {
  AgentOptions options{.id_or_path = args.get("ID"),
                       .mode = use == Use::kRead ? OpenMode::kReadOnly : OpenMode::kReadWrite};
  if (door.empty()) return options;
  options.caller = {
      .agent = {}, .space = Space::kKernel, .door = std::string(door), .session = {}, .trace = trace_of(context)};
  options.may_record = true;
  return options;
}

}  // namespace

Result<std::unique_ptr<Agent>> open_agent(Context& context, const Arguments& args, Use use) {
  return Agent::open(options_to_open(context, args, use, "fs"), context.clock);
}

Result<std::unique_ptr<Agent>> open_state(Context& context, const Arguments& args, Use use, std::string_view door) {
  AgentOptions options = options_to_open(context, args, use, door);
  options.layers = Layers::kOwn;
  return Agent::open(options, context.clock);
}

std::size_t columns_of_output(const Context& context, const Output& out) {
  constexpr std::size_t kColumnsMin = 40;
  constexpr std::size_t kColumnsMax = 1000;
  std::optional<std::size_t> asked = parse_number<std::size_t>(context.environment("COLUMNS").value_or(""));
  return std::clamp(asked.value_or(out.columns()), kColumnsMin, kColumnsMax);
}

Result<std::string> read_input(Context& context, std::size_t size_bytes_max) {
  constexpr std::size_t kStep = 65536;
  std::string text;
  for (;;) {
    std::size_t had = text.size();
    text.resize(had + kStep);
    std::size_t count =
        WARREN_TRY(read_full(context.input, as_mutable_bytes(text).subspan(had)).within("standard input"));
    text.resize(had + count);
    if (text.size() > size_bytes_max) {
      return Error(Code::kTooLarge, fmt::format("standard input has more than {} bytes", size_bytes_max));
    }
    if (count < kStep) return text;
  }
}

Result<Exit> end_reading(Agent& agent) {
  WARREN_TRY(agent.check_recorded());
  return Exit::kOk;
}

std::string trace_of(Context& context) { return context.environment("WARREN_TRACE_ID").value_or(""); }

void print_error(Context& context, const Error& error) {
  context.err.line(fmt::format("{} {}", context.err.paint(Ink::kRed, "warren:"), error.message()));
  if (!error.hint().empty()) context.err.line(fmt::format("hint: {}", error.hint()));
}

void warn_if_not(Context& context, const Status& done) {
  if (!done.ok()) context.err.line(fmt::format("warren: {}", context.err.name(done.error().message())));
}

void warn_if_unrecorded(Context& context, const Agent& agent) {
  if (agent.unrecorded()) context.err.line(fmt::format("warren: {}", context.err.name(*agent.unrecorded())));
}

Exit refuse(Context& context, std::string_view message) {
  context.err.line(fmt::format("warren: {}", message));
  return Exit::kUsage;
}

}  // namespace warren::cli
