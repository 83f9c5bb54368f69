// The tools of an agent that is a session of `warren run`: run (a command in its sandbox) and apply (its changes, to
// its base). What they do is done by the door (ToolReach), as the operator allowed it.
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "changes/git/git_folder.h"
#include "changes/upper/open_overlay.h"
#include "tools/agent/visible_changes.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::int64_t kRunSeconds = 120;
constexpr std::int64_t kRunSecondsMax = 3600;
constexpr std::size_t kRunOutputBytes = std::size_t{128} << 10;  // of each stream
constexpr std::size_t kRunWords = 1000;
constexpr int kSandboxFailed = 125;  // also of `warren run`, if Warren itself fails

ToolAnswer session_answer(Result<ToolAnswer> made) {
  if (made.ok()) return std::move(made).take_value();
  ToolAnswer answer;
  answer.error = tool_error(made.error());
  return answer;
}

Result<std::vector<std::string>> words_of(const Json& arguments) {
  auto command = arguments.find("command");
  if (command->is_string()) return std::vector<std::string>{"/bin/sh", "-c", command->get<std::string>()};
  std::vector<std::string> words;
  for (const Json& word : *command) words.push_back(word.get<std::string>());
  if (words.empty() || words[0].empty()) {
    return Error(Code::kInvalid, "'command' is empty", "Give a line for the shell, or a list of words.");
  }
  return words;
}

Result<ToolAnswer> run_answer(ToolContext& context, const Json& arguments) {
  std::vector<std::string> words = WARREN_TRY(words_of(arguments));
  for (const std::string& word : words) {
    if (word.find('\0') != word.npos) return Error(Code::kInvalid, "'command' has a NUL character");
  }
  std::uint64_t seconds = count_argument(arguments, "timeout_seconds", kRunSeconds);
  SandboxCommand command{.words = std::move(words),
                         .timeout = std::chrono::seconds(seconds),
                         .output_bytes_max = kRunOutputBytes,
                         .is_cancelled = context.is_cancelled};
  ProgramEnd end = WARREN_TRY(context.reach->run(command));
  WARREN_TRY(check_cancelled(context));
  ToolAnswer answer;
  answer.structured["exit_status"] = end.status;
  set_path_text(answer.structured, "stdout", end.output);
  set_path_text(answer.structured, "stderr", end.errors);
  answer.structured["is_cut"] = end.is_cut;
  answer.structured["has_timed_out"] = end.is_ended;
  answer.text =
      fmt::format("{}{}{}exit status {}{}{}", end.output, end.errors.empty() ? "" : "stderr:\n", end.errors, end.status,
                  end.is_ended ? fmt::format(" (ended after {} s)", seconds) : "",
                  end.is_cut ? fmt::format("; only the first {} bytes of each stream are kept", kRunOutputBytes) : "");
  if (end.status == kSandboxFailed) answer.text += "; 125 can also mean that the sandbox could not be started";
  return answer;
}

// "/project/src" is "/src" in the base.
Result<std::string> base_path_of(ToolContext& context, const std::string& given) {
  std::string path = WARREN_TRY(context.view.resolve(*context.names, given, "apply"));
  std::optional<std::string> inside = path_in_project(path);
  if (inside) return *inside;
  return Error(Code::kInvalid, fmt::format("{} is not below {}", quote(given), kProjectPath),
               fmt::format("Changes are applied to the project: give paths as {}/src.", kProjectPath));
}

// Hints of the command line name its options, which this tool does not have.
std::string without_hints(std::string_view errors) {
  std::string kept;
  while (!errors.empty()) {
    std::string_view line = errors.substr(0, errors.find('\n'));
    errors.remove_prefix(std::min(errors.size(), line.size() + 1));
    if (line.empty() || line.starts_with("hint: ")) continue;
    kept += kept.empty() ? "" : "\n";
    kept += line;
  }
  return kept;
}

// What `warren apply` has printed: JSON, or why not.
Result<Json> applied_json(const ProgramEnd& end) {
  if (end.is_ended) {
    return Error(Code::kUnavailable, "the apply was ended before it was complete",
                 "It may be incomplete: the next apply finishes or undoes it.");
  }
  Result<Json> printed = parse_json(end.output);
  if (printed.ok() && printed->is_object()) return printed;
  if (end.status == 0) {
    return Error(Code::kTooLarge,
                 fmt::format("it ended well, but its report is {}", end.is_cut ? "too long" : "not JSON"),
                 "Look at diff: what was applied is not in it any more. Give \"paths\" to apply less at once.");
  }
  std::string why = without_hints(end.errors);
  if (why.empty()) why = fmt::format("it ended with status {}", end.status);
  return Error(Code::kUnavailable, fmt::format("nothing was applied: {}", why.substr(0, 4000)),
               "See what would be applied with diff {}, and ask the operator, who has more options.");
}

// A path as `warren apply --json` prints it: "path", and "path_hex" if it is not UTF-8.
std::string printed_path(const Json& one, const std::string& key = "path") {
  std::string hex = one.value(key + "_hex", "");
  if (hex.empty()) return one.value(key, "");
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// What this change needs in the namespace, as if it were made there.
Result<bool> may_make(ToolContext& context, const Json& change) {
  std::string kind = change.value("change", "");
  std::string path = project_path_of(printed_path(change));
  NamespaceView& view = context.view;
  if (kind == "added") return view.may(Rights::kCreate, path);
  if (kind == "deleted") return view.may(Rights::kDelete, path);
  if (kind != "renamed") return view.may(Rights::kOverwrite, path);
  std::string from = project_path_of(printed_path(change, "from"));
  bool may_rename = WARREN_TRY(view.may(Rights::kOverwrite, from))
  &&WARREN_TRY(view.may(Rights::kOverwrite, path));
  bool may_move = WARREN_TRY(view.may(Rights::kDelete, from))
  &&WARREN_TRY(view.may(Rights::kCreate, path));
  return may_rename || may_move;
}

// All that the apply is about, of which the caller must see and be able to make every one. It applies all or nothing,
// so a change that diff does not show refuses the whole.
Status check_may_apply(ToolContext& context, const ApplyRequest& request, const Json& plan) {
  OverlayAgent opened = WARREN_TRY(open_overlay(context.agent.path(), OpenMode::kReadOnly, context.clock));
  std::vector<TreeChange> all = WARREN_TRY(list_changes(opened.overlay));
  WARREN_TRY(leave_out_git(opened.overlay, all, request.paths));
  std::set<std::string> wanted;
  for (const char* list : {"applied", "conflicts"}) {
    for (const Json& one : plan.value(list, Json::array())) wanted.insert(printed_path(one));
  }
  if (plan.contains("commits")) {  // they can have any of the changes
    for (const TreeChange& change : all) wanted.insert(change.path);
  }
  for (const TreeChange& change : WARREN_TRY(visible_changes(context, {.is_project = true}, std::move(all)))) {
    wanted.erase(change.path);
  }
  std::size_t refused = wanted.size();
  for (const Json& one : plan.value("applied", Json::array())) {
    bool is_hidden = wanted.contains(printed_path(one));
    if (!is_hidden && !WARREN_TRY(may_make(context, one))) ++refused;
  }
  if (refused == 0) return Ok{};
  Error error(Code::kDenied,
              fmt::format("nothing was applied: {} of the changes may not be seen or made here", refused),
              "Give \"paths\" that diff lists and that may be written, or ask the operator to apply them.");
  WARREN_TRY(context.view.record("apply", std::string(kProjectPath), Status(error)));
  return error;
}

Status check_no_conflicts(const Json& plan) {
  Json conflicts = plan.value("conflicts", Json::array());
  if (conflicts.empty()) return Ok{};
  return Error(Code::kConflict,
               fmt::format("nothing was applied: {} of the files {} changed in the base too, the first is {} ({})",
                           conflicts.size(), conflicts.size() == 1 ? "has" : "have",
                           quote(project_path_of(printed_path(conflicts[0]))), conflicts[0].value("why", "")),
               "Give \"paths\" without these files, or ask the operator to merge them.");
}

// What only the operator can agree to. `warren apply` refuses it without a terminal.
Status check_no_questions(const Json& plan) {
  Json asks = plan.value("asks", Json::array());
  if (asks.empty()) return Ok{};
  return Error(Code::kDenied, fmt::format("nothing was applied: {}", asks[0].value("why", "")),
               "Ask the operator, who can look at it and agree.");
}

// Commits arrive as a branch, and their files are not written: "2 commits, as the branch 'warren/fix'".
std::string describe_commits(const Json& commits) {
  std::uint64_t count = commits.value("count", std::uint64_t{0});
  return fmt::format("{} {}, as the branch {}", count, count == 1 ? "commit" : "commits",
                     quote(commits.value("branch", "")));
}

// What would be written, with the first names.
std::string apply_question(const std::string& base, const Json& plan) {
  constexpr std::size_t kNamed = 10;
  constexpr std::size_t kNamedBytes = 1000;
  const Json& changes = plan["applied"];
  std::string names;
  std::size_t named = 0;
  for (; named < std::min(kNamed, changes.size()) && names.size() < kNamedBytes; ++named) {
    const Json& one = changes[named];
    names += fmt::format("{}{} {}", named == 0 ? "" : ", ", one.value("change", ""),
                         printable(project_path_of(printed_path(one))));
  }
  if (named < changes.size()) names += fmt::format(" and {} more", changes.size() - named);
  std::string text =
      fmt::format("Write {} {} to {}?", changes.size(), changes.size() == 1 ? "change" : "changes", base);
  if (!names.empty()) text += " " + names;
  if (plan.contains("commits") && plan["commits"].contains("branch")) {
    text += "; and " + describe_commits(plan["commits"]);
  }
  return text;
}

Result<Json> run_apply_program(ToolContext& context, const ApplyRequest& request) {
  ProgramEnd end = WARREN_TRY(context.reach->apply(request));
  return applied_json(end);
}

// What the apply would do, if the caller may have all of it done.
Result<Json> plan_apply(ToolContext& context, ApplyRequest request) {
  if (!request.is_dry_run && WARREN_TRY(is_interrupted(context.agent))) {
    ProgramEnd recovered = WARREN_TRY(
        context.reach->apply({.paths = {}, .is_recovery = true, .if_state = {}, .is_cancelled = request.is_cancelled}));
    if (recovered.is_ended) WARREN_TRY(applied_json(recovered));
  }
  request.is_dry_run = true;
  Json plan = WARREN_TRY(run_apply_program(context, request));
  WARREN_TRY(check_may_apply(context, request, plan));
  WARREN_TRY(check_no_conflicts(plan));
  return plan;
}

// Of the report of `warren apply`, what this tool answers.
Json shown_commits(const Json& commits) {
  Json shown{
      {"count", commits.value("count", 0)}, {"files", commits.value("committed", 0)}, {"waiting", Json::array()}};
  for (const char* name : {"branch", "commit"}) {
    if (commits.contains(name)) shown[name] = commits[name];
  }
  for (const Json& path : commits.value("held", Json::array())) {
    if (shown["waiting"].size() == kToolPageEntries) break;
    shown["waiting"].push_back(project_path_of(path.get<std::string>()));
  }
  return shown;
}

std::string commits_text(const Json& commits, bool is_dry_run) {
  std::string text;
  if (commits.contains("branch")) {
    text += fmt::format("\n{} {} of the project's repository; its files are written when the operator merges it",
                        is_dry_run ? "Would write" : "Wrote", describe_commits(commits));
  }
  std::size_t files = commits.value("files", std::size_t{0});
  if (files == 1) text += "\n1 change is in the commits, not written as a file";
  if (files > 1) text += fmt::format("\n{} changes are in the commits, not written as files", files);
  const Json& waiting = commits["waiting"];
  if (!waiting.empty()) {
    text += fmt::format("\nNot written before the commits are merged, since {} changed again after them: {}{}",
                        waiting.size() == 1 ? "it was" : "they were", printable(waiting[0].get<std::string>()),
                        waiting.size() == 1 ? "" : fmt::format(" and {} more", waiting.size() - 1));
  }
  return text;
}

ToolAnswer applied_answer(const Json& printed, bool is_dry_run) {
  Json all = printed.value("applied", Json::array());
  Json applied = Json::array();
  for (const Json& one : all) {
    if (applied.size() == kToolPageEntries) break;
    Json shown{{"change", one.value("change", "")}};
    set_path_text(shown, "path", project_path_of(printed_path(one)));
    applied.push_back(std::move(shown));
  }
  ToolAnswer answer;
  answer.structured = {{"applied", std::move(applied)},
                       {"total", all.size()},
                       {"is_dry_run", is_dry_run},
                       {"can_be_undone", printed.value("can_be_undone", false)}};
  answer.text = fmt::format("{} {} {}", is_dry_run ? "Would apply" : "Applied", all.size(),
                            all.size() == 1 ? "change" : "changes");
  if (printed.contains("commits")) {
    Json commits = shown_commits(printed["commits"]);
    answer.text += commits_text(commits, is_dry_run);
    answer.structured["commits"] = std::move(commits);
  }
  for (const Json& one : printed.value("asks", Json::array()))
    answer.text += fmt::format("\nOnly the operator can agree to this: {}", one.value("why", ""));
  return answer;
}

Result<ToolAnswer> apply_answer(ToolContext& context, const Json& arguments) {
  ApplyRequest request{.paths = {},
                       .is_dry_run = flag_argument(arguments, "dry_run"),
                       .if_state = {},
                       .is_cancelled = context.is_cancelled};
  if (auto paths = arguments.find("paths"); paths != arguments.end()) {
    for (const Json& path : *paths) {
      std::string inside = WARREN_TRY(base_path_of(context, path.get<std::string>()));
      request.paths.push_back(std::move(inside));
    }
  }
  Json plan = WARREN_TRY(plan_apply(context, request));
  bool is_nothing = plan.value("applied", Json::array()).empty() && !plan.contains("commits");
  if (request.is_dry_run || is_nothing) return applied_answer(plan, request.is_dry_run);
  WARREN_TRY(check_no_questions(plan));
  request.if_state = plan.value("state", "");
  WARREN_TRY(check_consent(context, {.text = apply_question(*context.agent.base(), plan), .state = request.if_state}));
  // The rules may be others by now, too.
  WARREN_TRY(check_may_apply(context, request, plan));
  Json printed = WARREN_TRY(run_apply_program(context, request));
  if (printed.value("state", request.if_state) != request.if_state) {
    return Error(Code::kConflict, "nothing was applied: the changes are not the same any more",
                 "Look at diff, and call apply again.");
  }
  WARREN_TRY(check_no_conflicts(printed));
  return applied_answer(printed, false);
}

Json run_input() {
  Json words = text_schema("a line for the shell, or a list of words");
  words["type"] = {"string", "array"};
  words["items"] = {{"type", "string"}};
  words["minLength"] = 1;
  words["maxItems"] = kRunWords;
  Json timeout = whole_number_schema("default 120", 1);
  timeout["maximum"] = kRunSecondsMax;
  return object_schema({{"command", std::move(words)}, {"timeout_seconds", std::move(timeout)}}, {"command"});
}

Json run_output() {
  return object_schema({{"exit_status", whole_number_schema("128 plus the signal that ended it", 0)},
                        {"stdout", text_schema("")},
                        {"stdout_base64", text_schema("if it is not UTF-8")},
                        {"stderr", text_schema("")},
                        {"stderr_base64", text_schema("")},
                        {"is_cut", flag_schema("there was more output")},
                        {"has_timed_out", flag_schema("it was ended")}},
                       {"exit_status", "stdout", "stderr", "is_cut", "has_timed_out"});
}

Json apply_input() {
  Json paths = list_schema("only changes at or below these; default: all", text_schema(""));
  paths["minItems"] = 1;
  paths["maxItems"] = 1000;
  return object_schema({{"paths", std::move(paths)}, {"dry_run", flag_schema("only say what would be written")}}, {});
}

Json apply_output() {
  Json change = object_schema({{"change", text_schema("added, modified, deleted or renamed")},
                               {"path", text_schema("")},
                               {"path_base64", text_schema("")}},
                              {"change", "path"});
  Json commits = object_schema(
      {{"count", whole_number_schema("commits that the project's repository did not have", 0)},
       {"branch", text_schema("of the project's repository, where they are; none if it has all of them already")},
       {"commit", text_schema("where the branch is")},
       {"files", whole_number_schema("changes that are in the commits, so they are not written as files", 0)},
       {"waiting",
        list_schema("not written before the commits are merged: changed again after them", text_schema(""))}},
      {"count", "files", "waiting"});
  return object_schema({{"applied", list_schema("written as files: the first 1000", std::move(change))},
                        {"commits", std::move(commits)},
                        {"total", whole_number_schema("", 0)},
                        {"is_dry_run", flag_schema("")},
                        {"can_be_undone", flag_schema("by the operator")}},
                       {"applied", "total", "is_dry_run", "can_be_undone"});
}

}  // namespace

const Tool& run_tool() {
  static constexpr Tool kTool{
      .name = "run",
      .title = "Run a command",
      .group = "session",
      .description =
          "Run a command in the session's sandbox, in the project, whose files are at /project here. Use "
          "it to build and test; its changes are kept in the session: see diff. Returns the exit status "
          "and the beginning of the output. Example: {\"command\": \"make test\", \"timeout_seconds\": 300}",
      .hints = {.is_destructive = true},
      .input_schema = run_input,
      .output_schema = run_output,
      .call = [](ToolContext& context,
                 const Json& arguments) { return session_answer(run_answer(context, arguments)); },
      .need = ToolNeed::kRun};
  return kTool;
}

const Tool& apply_tool() {
  static constexpr Tool kTool{
      .name = "apply",
      .title = "Apply changes to the project",
      .group = "session",
      .description =
          "Write the session's changes to the real project directory: all of them or none. Use it when the "
          "work is done; look at diff first. Commits of git become a branch there, and what they contain is not "
          "written as "
          "files. Returns what was applied. Example: {\"paths\": "
          "[\"/project/src\"], \"dry_run\": true}",
      .hints = {.is_destructive = true},
      .input_schema = apply_input,
      .output_schema = apply_output,
      .call = [](ToolContext& context,
                 const Json& arguments) { return session_answer(apply_answer(context, arguments)); },
      .need = ToolNeed::kApply};
  return kTool;
}

}  // namespace warren
