#include "cli/show/expiry.h"

#include "cli/syntax/values.h"
#include "fs/expiry.h"

namespace warren::cli {

Option ttl_option() {
  return {.name = "ttl",
          .value = "TIME",
          .help = "remove it after this time: 30s, 5m, 2h or 1d",
          .kind = ValueKind::kDuration};
}

Result<std::optional<std::int64_t>> find_expiry_option(Context& context, const Arguments& args) {
  std::optional<std::string> text = args.find("ttl");
  if (!text) return std::optional<std::int64_t>();
  std::chrono::milliseconds time_to_live = WARREN_TRY(parse_duration(*text));
  std::int64_t at_ms = WARREN_TRY(expiry_after(context.clock, time_to_live));
  return std::optional(at_ms);
}

Result<std::optional<std::int64_t>> expiry_of(FileSystem& fs, const Attributes& node) {
  if (!node.is_file()) return std::optional<std::int64_t>();
  return find_expiry(fs, node.inode);
}

Timestamp timestamp_of(std::int64_t at_ms) {
  return {.seconds = at_ms / 1000, .nanoseconds = static_cast<std::int32_t>(at_ms % 1000) * 1'000'000};
}

void set_expiry(Json& object, const std::optional<std::int64_t>& expires_at_ms) {
  if (expires_at_ms) object["expires_at_ms"] = *expires_at_ms;
}

}  // namespace warren::cli
