#include "cli/context.h"

#include "os/fd.h"

namespace warren::cli {

Result<std::unique_ptr<Agent>> open_agent(Context& context, const Arguments& args, Use use) {
  OpenMode mode = use == Use::kRead ? OpenMode::kReadOnly : OpenMode::kReadWrite;
  AgentOptions options{.id_or_path = args.get("ID"), .mode = mode};
  options.caller = {.agent = {}, .space = Space::kKernel, .door = "fs", .session = {}, .trace = trace_of(context)};
  Result<std::unique_ptr<Agent>> agent = Agent::open(options, context.clock);
  bool records_reads = agent.ok() && (*agent)->audit_level() == AuditLevel::kReads;
  if (use == Use::kWrite || !records_reads) return agent;
  // To read it is to change its trail. A file that cannot be changed is shown as it is.
  options.mode = OpenMode::kReadWrite;
  Result<std::unique_ptr<Agent>> on_record = Agent::open(options, context.clock);
  bool is_fixed =
      !on_record.ok() && (on_record.error().code() == Code::kReadOnly || on_record.error().code() == Code::kDenied);
  return is_fixed ? std::move(agent) : std::move(on_record);
}

Result<std::unique_ptr<Agent>> open_state(Context& context, const Arguments& args, Use use) {
  OpenMode mode = use == Use::kRead ? OpenMode::kReadOnly : OpenMode::kReadWrite;
  return Agent::open({.id_or_path = args.get("ID"), .mode = mode, .layers = Layers::kOwn}, context.clock);
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

std::string trace_of(Context& context) { return context.environment("WARREN_TRACE_ID").value_or(""); }

Exit refuse(Context& context, std::string_view message) {
  context.err.line(fmt::format("warren: {}", message));
  return Exit::kUsage;
}

}  // namespace warren::cli
