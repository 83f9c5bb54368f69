#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/keys/encrypted_files.h"
#include "agent/keys/file_key.h"
#include "agent/locate.h"
#include "agent/record/audit_trail.h"
#include "base/shell_word.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "store/fsck/fsck.h"
#include "vfs/live_policy.h"
#include "vfs/policy.h"

namespace warren::cli {
namespace {

Json report_json(const FsckReport& report) {
  Json json{{"clean", report.clean()}, {"violations", Json::array()}};
  for (const Violation& violation : report.violations) {
    json["violations"].push_back(
        {{"rule", violation.rule}, {"message", violation.message}, {"repairable", violation.repairable}});
  }
  json["inodes"] = report.inodes;
  json["entries"] = report.entries;
  json["chunks"] = report.chunks;
  json["keys"] = report.keys;
  json["tool_calls"] = report.calls;
  return json;
}

void print_report(Output& out, const FsckReport& report) {
  for (const Violation& violation : report.violations) {
    out.print("{}: {}{}\n", out.paint(Ink::kRed, violation.rule), out.name(violation.message),
              violation.repairable ? "" : " (cannot be repaired)");
  }
  out.print("{}: {} inodes, {} entries, {} chunks, {} keys, {} tool calls\n",
            report.clean() ? out.paint(Ink::kGreen, "clean") : fmt::format("{} violations", report.violations.size()),
            report.inodes, report.entries, report.chunks, report.keys, report.calls);
}

// The content of encrypted files, which SQL alone cannot check. Returns how many could not be checked without a key.
Result<std::uint64_t> add_content(FsckReport& report, const std::string& path, Clock& clock) {
  Result<CipherCheck> found = check_encrypted_content(path, clock);
  if (!found.ok() && !report.clean()) return std::uint64_t{0};  // too damaged to be opened
  CipherCheck check = WARREN_TRY(std::move(found));
  std::uint64_t more = check.failed - check.problems.size();
  if (more > 0) check.problems.push_back(fmt::format("and {} other files", more));
  for (std::string& problem : check.problems) {
    report.violations.push_back({.rule = "WR-84", .message = std::move(problem), .repairable = false});
  }
  return check.unknown;
}

// Not a rule of the format, but nobody can use the namespace of an agent whose policy cannot be read.
void add_policy(FsckReport& report, const std::string& path, Clock& clock) {
  AgentOptions only_to_look{.id_or_path = path, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn};
  Result<std::unique_ptr<Agent>> agent = Agent::open(only_to_look, clock);
  if (!agent.ok()) return;  // what is wrong was reported
  Result<FileSystem*> tree = (*agent)->namespace_tree();
  if (!tree.ok()) return;
  Result<std::string> text = LivePolicy::read(**tree, kActivePolicy);
  if (!text.ok()) return;  // there is none, or rule WR-35 says what it is
  Result<Policy> policy = Policy::parse(*text);
  if (policy.ok()) return;
  std::string message =
      fmt::format("{} is not valid, so the namespace cannot be used: {}; `warren policy ID set FILE` replaces it",
                  kActivePolicy, policy.error().message());
  report.violations.push_back({.rule = "policy", .message = std::move(message), .repairable = false});
}

Result<Exit> check(Context& context, const Arguments& args, const std::string& path) {
  FsckReport report = WARREN_TRY(check_agent(path, context.clock, agent_keys(path)));
  std::uint64_t unchecked = WARREN_TRY(add_content(report, path, context.clock));
  add_policy(report, path, context.clock);
  if (args.has("json")) context.out.json(report_json(report));
  else print_report(context.out, report);
  if (unchecked > 0 && !args.has("json")) {
    context.out.print("{} encrypted files were not checked: there is no key for them\n", unchecked);
  }
  if (!report.clean() && !args.has("json"))
    context.out.line("run again with `--repair` to repair what can be repaired, after a backup");
  return report.clean() ? Exit::kOk : Exit::kFailed;
}

Result<Exit> repair(Context& context, const Arguments& args, const std::string& path) {
  RepairReport report = WARREN_TRY(repair_agent(path, context.clock, agent_keys(path)));
  Output& out = context.out;
  if (report.repaired > 0) warn_if_not(context, record_afterwards(path, "fsck", std::nullopt, context.clock));
  if (args.has("json")) {
    Json json{
        {"before", report_json(report.before)}, {"repaired", report.repaired}, {"after", report_json(report.after)}};
    json["lost_patterns"] = report.lost_patterns;
    if (!report.backup_path.empty()) set_bytes(json, "backup", report.backup_path);
    out.json(json);
  } else {
    print_report(out, report.before);
    if (!report.backup_path.empty()) {
      out.print("backup: {}\nrepaired {} rows\n", out.name(report.backup_path), report.repaired);
      print_report(out, report.after);
    }
  }
  if (report.lost_patterns) {
    context.err.line("warren: the patterns of encrypted files are lost, and new files are not encrypted");
    context.err.print("hint: `warren encrypt {} PATTERN` sets them again\n",
                      context.err.name(shell_word(args.get("ID"))));
  }
  return report.after.clean() && !report.lost_patterns ? Exit::kOk : Exit::kFailed;
}

Result<Exit> run_fsck(Context& context, const Arguments& args) {
  std::string path = WARREN_TRY(locate_agent(args.get("ID")));
  if (path == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory has no file to check");
  return args.has("repair") ? repair(context, args, path) : check(context, args, path);
}

}  // namespace

Command make_fsck() {
  return {.name = "fsck",
          .summary = "Check an agent's file against every rule of its format",
          .details = "The exit status is 1 if a rule is broken and was not repaired. Rules: docs/format.md.",
          .positionals = {id_argument()},
          .options = {{.name = "repair", .help = "repair what can be repaired, after a backup next to the file"},
                      json_option()},
          .subcommands = {},
          .handler = run_fsck};
}

}  // namespace warren::cli
