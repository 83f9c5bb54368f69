#include "cli/agent/copy_faults.h"

#include <fmt/format.h>

#include "cli/show/text.h"

namespace warren::cli {

Exit warn_of_stored_faults(Context& context, const CopyFaults& faults, const std::string& id, std::string_view taker) {
  if (faults.count == 0) return Exit::kOk;
  std::string name = context.err.name(id);
  context.err.line(
      fmt::format("warren: stored, but `{}` will refuse it: it has {}", taker, context.err.name(faults.text())));
  context.err.line(faults.are_repairable
                       ? fmt::format("hint: `warren fsck {} --repair`, then run this again", name)
                       : fmt::format("hint: `warren fsck {}` shows all; `{}` takes it with --unchecked", name, taker));
  return Exit::kFailed;
}

void warn_of_taken_faults(Context& context, const CopyFaults& faults, const std::string& id) {
  if (faults.count == 0) return;
  std::string name = context.err.name(id);
  context.err.line(fmt::format("warren: it was taken with {}", context.err.name(faults.text())));
  context.err.line(faults.are_repairable ? fmt::format("hint: `warren fsck {} --repair` repairs it", name)
                                         : fmt::format("hint: `warren fsck {}` shows all", name));
}

void set_faults(Json& json, const CopyFaults& faults) {
  json["faults"] = faults.count;
  json["fault"] = nullptr;
  if (faults.count > 0) set_bytes(json, "fault", faults.first);
}

Option unchecked_option() {
  return {.name = "unchecked", .help = "take an agent with faults, too, and name them; by default it is refused"};
}

FaultyCopy faulty_copy(const Arguments& args) {
  return args.has("unchecked") ? FaultyCopy::kTake : FaultyCopy::kRefuse;
}

}  // namespace warren::cli
