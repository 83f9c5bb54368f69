// The tools of an agent that is a session of `warren run`: run (a command in its sandbox) and apply (its changes, to
// its base). What they do is done by the door (ToolReach), as the operator allowed it.
#include <algorithm>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/path.h"
#include "base/utf8.h"
#include "tools/file_tools.h"
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

// What `warren apply` has printed: JSON, or why not.
Result<Json> applied_json(const ProgramEnd& end) {
  if (end.is_ended) {
    return Error(Code::kUnavailable, "the apply was ended before it was complete",
                 "It may be incomplete: the next apply, here or with `warren apply`, finishes or undoes it.");
  }
  Result<Json> printed = parse_json(end.output);
  if (printed.ok() && printed->is_object()) return printed;
  if (end.status == 0) {
    return Error(Code::kTooLarge,
                 fmt::format("it ended well, but its report is {}", end.is_cut ? "too long" : "not JSON"),
                 "Look at diff: what was applied is not in it any more. Give \"paths\" to apply less at once.");
  }
  std::string why = end.errors.empty() ? fmt::format("it ended with status {}", end.status) : end.errors;
  return Error(Code::kUnavailable, fmt::format("nothing was applied: {}", why.substr(0, 4000)),
               "Ask the operator, who can look with `warren apply`.");
}

Json conflict_list(const Json& printed) {
  Json list = Json::array();
  for (const Json& one : printed.value("conflicts", Json::array())) {
    std::string path = one.is_object() ? one.value("path", "") : "";
    std::string why = one.is_object() ? one.value("why", one.value("reason", "")) : dump_json(one);
    list.push_back({{"path", project_path_of(path)}, {"why", why}});
  }
  return list;
}

Result<ToolAnswer> apply_answer(ToolContext& context, const Json& arguments) {
  ApplyRequest request{
      .paths = {}, .is_dry_run = flag_argument(arguments, "dry_run"), .is_cancelled = context.is_cancelled};
  if (auto paths = arguments.find("paths"); paths != arguments.end()) {
    for (const Json& path : *paths) {
      std::string inside = WARREN_TRY(base_path_of(context, path.get<std::string>()));
      request.paths.push_back(std::move(inside));
    }
  }
  if (!request.is_dry_run) {
    WARREN_TRY(
        check_consent(context, fmt::format("Write {} of the session's changes to {}?",
                                           request.paths.empty() ? "all" : "the chosen ones", *context.agent.base())));
  }
  ProgramEnd end = WARREN_TRY(context.reach->apply(request));
  Json printed = WARREN_TRY(applied_json(end));
  Json conflicts = conflict_list(printed);
  if (!conflicts.empty()) {
    std::string first = conflicts[0]["path"].get<std::string>();
    return Error(Code::kConflict,
                 fmt::format("nothing was applied: {} of the files {} changed in the base too, the first is {} ({})",
                             conflicts.size(), conflicts.size() == 1 ? "has" : "have", quote(first),
                             conflicts[0]["why"].get<std::string>()),
                 "Ask the operator to merge them with `warren apply`.");
  }
  ToolAnswer answer;
  Json applied = Json::array();
  for (const Json& one : printed.value("applied", Json::array())) {
    if (applied.size() == kToolPageEntries) break;
    applied.push_back({{"change", one.value("change", "")}, {"path", project_path_of(one.value("path", ""))}});
  }
  std::size_t total = printed.value("applied", Json::array()).size();
  answer.structured = {{"applied", std::move(applied)},
                       {"total", total},
                       {"is_dry_run", request.is_dry_run},
                       {"can_be_undone", printed.value("can_be_undone", false)}};
  answer.text = fmt::format("{} {} changes", request.is_dry_run ? "Would apply" : "Applied", total);
  return answer;
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
  Json change = object_schema(
      {{"change", text_schema("added, modified, deleted or renamed")}, {"path", text_schema("")}}, {"change", "path"});
  return object_schema({{"applied", list_schema("the first 1000", std::move(change))},
                        {"total", whole_number_schema("", 0)},
                        {"is_dry_run", flag_schema("")},
                        {"can_be_undone", flag_schema("by the operator, with `warren undo`")}},
                       {"applied", "total", "is_dry_run", "can_be_undone"});
}

}  // namespace

const Tool& run_tool() {
  static constexpr Tool kTool{
      .name = "run",
      .title = "Run a command",
      .group = "session",
      .description =
          "Run a command in the session's sandbox, in the project, whose files are at /project here. Its changes are "
          "kept in the session: see diff. Returns the exit status and the beginning of the output. Example: "
          "{\"command\": \"make test\", \"timeout_seconds\": 300}",
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
          "Write the session's changes to the real project directory: all of them or none. Look at diff first. "
          "Example: {\"paths\": [\"/project/src\"], \"dry_run\": true}",
      .hints = {.is_destructive = true},
      .input_schema = apply_input,
      .output_schema = apply_output,
      .call = [](ToolContext& context,
                 const Json& arguments) { return session_answer(apply_answer(context, arguments)); },
      .need = ToolNeed::kApply};
  return kTool;
}

}  // namespace warren
