#include <fmt/format.h>

#include "agent/agent_state.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

std::string limit_text(const std::optional<std::uint64_t>& limit) { return limit ? std::to_string(*limit) : "none"; }

Result<Exit> run_quota(Context& context, const Arguments& args) {
  QuotaChanges changes;
  if (auto text = args.find("bytes")) changes.bytes = WARREN_TRY(parse_size_or_none(*text));
  if (auto text = args.find("inodes")) changes.inodes = WARREN_TRY(parse_size_or_none(*text));
  bool is_change = changes.bytes || changes.inodes;
  auto agent = WARREN_TRY(open_state(context, args, is_change ? Use::kWrite : Use::kRead));
  if (is_change) WARREN_TRY(change_quota(*agent, changes));
  QuotaReport report = WARREN_TRY(get_quota(*agent));
  if (args.has("json")) {
    context.out.json({{"bytes", {{"used", report.used.bytes}, {"limit", number_or_null(report.quota.bytes)}}},
                      {"inodes", {{"used", report.used.inodes}, {"limit", number_or_null(report.quota.inodes)}}}});
    return Exit::kOk;
  }
  context.out.print("{:<8} {:>16} {:>16}\n", "", "USED", "LIMIT");
  context.out.print("{:<8} {:>16} {:>16}\n", "bytes", context.out.size(report.used.bytes),
                    report.quota.bytes ? context.out.size(*report.quota.bytes) : "none");
  context.out.print("{:<8} {:>16} {:>16}\n", "inodes", report.used.inodes, limit_text(report.quota.inodes));
  return Exit::kOk;
}

}  // namespace

Command make_quota() {
  return {
      .name = "quota",
      .summary = "Show or set how much an agent may store",
      .details = "Bytes are the sizes of files and links; inodes are files, directories and all other nodes.",
      .positionals = {id_argument()},
      .options = {{.name = "bytes", .value = "SIZE", .help = "the new limit, or none", .kind = ValueKind::kSizeOrNone},
                  {.name = "inodes", .value = "N", .help = "the new limit, or none", .kind = ValueKind::kSizeOrNone},
                  json_option()},
      .subcommands = {},
      .handler = run_quota};
}

}  // namespace warren::cli
