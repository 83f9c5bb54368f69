#include <fmt/format.h>

#include "agent/keys/file_key.h"
#include "agent/locate.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "store/migrate.h"

namespace warren::cli {
namespace {

Json report_json(const std::string& path, const MigrationReport& report) {
  Json json;
  set_bytes(json, "path", path);
  json["from"] = report.from;
  json["to"] = report.to;
  json["steps"] = Json::array();
  for (const MigrationStep& step : report.steps) {
    json["steps"].push_back({{"from", step.from}, {"to", step.to}, {"actions", step.actions}});
  }
  return json;
}

Result<Exit> run_migrate(Context& context, const Arguments& args) {
  std::string path = WARREN_TRY(locate_agent(args.get("ID")));
  if (path == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory always has the current schema");
  bool is_dry = args.has("dry-run");
  MigrationReport report = WARREN_TRY(migrate_agent(path, is_dry ? DryRun::kYes : DryRun::kNo, agent_keys(path))
                                          .within(fmt::format("migrate {}", quote(path))));
  Output& out = context.out;
  if (!is_dry && !report.steps.empty()) {
    warn_if_not(context, record_afterwards(path, "migrate", std::nullopt, context.clock));
  }
  if (args.has("json")) {
    out.json(report_json(path, report));
    return Exit::kOk;
  }
  if (report.steps.empty()) {
    out.print("{} already has schema {}\n", out.name(path), report.to);
    return Exit::kOk;
  }
  out.print("{} {}: {} to {}\n", is_dry ? "would migrate" : "migrated", out.name(path), report.from, report.to);
  for (const MigrationStep& step : report.steps) {
    out.print("  {} to {}\n", step.from, step.to);
    for (const std::string& action : step.actions) out.print("    {}\n", action);
  }
  return Exit::kOk;
}

}  // namespace

Command make_migrate() {
  return {.name = "migrate",
          .summary = "Upgrade an agent file to the current schema",
          .details = "All steps are applied together or not at all. Running it again does no harm.",
          .positionals = {id_argument()},
          .options = {{.name = "dry-run", .letter = 'n', .help = "show what would be done"}, json_option()},
          .subcommands = {},
          .handler = run_migrate};
}

}  // namespace warren::cli
