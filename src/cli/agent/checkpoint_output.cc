#include "cli/agent/checkpoint_output.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/show/text.h"

namespace warren::cli {

Json checkpoint_json(const Checkpoint& checkpoint) {
  Json json;
  json["id"] = checkpoint.id;
  set_bytes(json, "name", checkpoint.name);
  json["taken_at_ms"] = checkpoint.at_us / 1000;
  set_bytes(json, "cause", checkpoint.cause);
  return json;
}

std::string checkpoint_label(const Checkpoint& checkpoint) {
  return fmt::format("{} ({})", checkpoint.id, printable(checkpoint.name));
}

}  // namespace warren::cli
