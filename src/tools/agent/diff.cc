// diff: what has changed since a checkpoint, between two, or in a session since its base.
#include <algorithm>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "agent/checkpoints/checkpoints.h"
#include "base/path.h"
#include "base/printable.h"
#include "changes/change_word.h"
#include "changes/commits/commits.h"
#include "changes/git/git_folder.h"
#include "changes/review/past_diff.h"
#include "changes/review/patch.h"
#include "changes/upper/open_overlay.h"
#include "tools/agent/checkpoint_tools.h"
#include "tools/agent/visible_changes.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kDiffTextBytes = std::size_t{256} << 10;

// The beginning of it: files after the limit are not even read.
Result<std::string> patch_text(const ToolContext& context, const std::function<Status(const PatchSink&)>& write) {
  std::string text;
  Status done = write([&](std::string_view part) -> Status {
    WARREN_TRY(check_cancelled(context));
    text += part.substr(0, kDiffTextBytes - text.size());
    if (text.size() == kDiffTextBytes) return Error(Code::kLimit, "the patch is full");
    return Ok{};
  });
  if (text.size() < kDiffTextBytes) WARREN_TRY(std::move(done));
  return text;
}

// Only those that the caller may read.
Result<Json> key_changes(ToolContext& context, PastDiff& diff) {
  Json all{{"added", Json::array()}, {"modified", Json::array()}, {"deleted", Json::array()}};
  std::size_t total = 0;
  auto add = [&](const char* kind, std::vector<std::string>& keys) -> Status {
    std::vector<std::string> readable = WARREN_TRY(readable_keys(context.view, std::move(keys)));
    total += readable.size();
    if (readable.size() > kToolPageEntries) readable.resize(kToolPageEntries);
    all[kind] = std::move(readable);
    return Ok{};
  };
  WARREN_TRY(add("added", diff.keys_added));
  WARREN_TRY(add("modified", diff.keys_changed));
  WARREN_TRY(add("deleted", diff.keys_deleted));
  all["total"] = total;
  return all;
}

ToolAnswer listed(const Json& arguments, ShownPaths paths, const std::vector<TreeChange>& all) {
  std::size_t limit = std::min<std::size_t>(count_argument(arguments, "limit", 500), kToolPageEntries);
  ToolAnswer answer;
  Json changes = Json::array();
  for (const TreeChange& change : all) {
    std::string path = paths.at(change.path);
    if (answer.text.size() < kDiffTextBytes) answer.text += fmt::format("{} {}\n", change.letter(), path);
    if (changes.size() == limit) continue;
    Json one{{"change", change_word(change.kind)}};
    set_path_text(one, "path", path);
    if (change.kind == TreeChangeKind::kRenamed) set_path_text(one, "from", paths.at(change.base_path));
    changes.push_back(std::move(one));
  }
  answer.structured["total"] = all.size();
  answer.structured["changes"] = std::move(changes);
  answer.structured["keys"] = {
      {"added", Json::array()}, {"modified", Json::array()}, {"deleted", Json::array()}, {"total", 0}};
  return answer;
}

void end_text(ToolAnswer& answer, std::size_t left_out) {
  answer.structured["left_out"] = left_out;
  if (answer.text.size() > kDiffTextBytes) answer.text.resize(kDiffTextBytes);
  if (answer.text.empty() && left_out == 0) answer.text = "no file has changed";
  if (left_out > 0) answer.text += fmt::format("left out, because it may not be read here: {}\n", left_out);
}

// Since a checkpoint.
Result<ToolAnswer> past_answer(ToolContext& context, const Json& arguments) {
  ShownPaths paths{.is_project = context.agent.base().has_value()};
  Checkpoint from = WARREN_TRY(wanted_checkpoint(context, text_argument(arguments, "from")));
  std::optional<std::int64_t> to;
  if (arguments.contains("to")) {
    Checkpoint later = WARREN_TRY(wanted_checkpoint(context, text_argument(arguments, "to")));
    to = later.id;
  }
  PastDiff diff = WARREN_TRY(diff_checkpoints(context.agent.path(), from.id, to, context.clock));
  std::size_t count = diff.changes.size();
  diff.changes = WARREN_TRY(visible_changes(context, paths, std::move(diff.changes)));
  WARREN_TRY(context.view.record("diff", paths.at("/"), Status(Ok{})));
  ToolAnswer answer = listed(arguments, paths, diff.changes);
  answer.structured["keys"] = WARREN_TRY(key_changes(context, diff));
  if (flag_argument(arguments, "patch")) {
    answer.text = WARREN_TRY(patch_text(context, [&](const PatchSink& sink) { return write_past_patch(diff, sink); }));
    answer.structured["patch"] = answer.text;
  }
  end_text(answer, count - diff.changes.size());
  return answer;
}

// The session's commits that the project's repository does not have: apply brings them as a branch.
void add_commits(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git, ToolAnswer& answer) {
  Result<std::optional<AgentCommits>> found = find_commits(overlay);
  if (!found.ok()) {
    answer.text += fmt::format("cannot tell what was committed: {}\n", found.error().message());
    return;
  }
  if (!*found || (*found)->brings.empty()) return;
  if (!answer.text.empty() && !answer.text.ends_with('\n')) answer.text += '\n';
  Json branches = Json::array();
  for (const AgentBranch& one : (*found)->brings) {
    std::string name = one.name.empty() ? "HEAD" : printable(one.name);
    answer.text += fmt::format("new commits: {} is at {}; apply brings them as a branch\n", name, one.commit);
    branches.push_back({{"branch", std::move(name)}, {"commit", one.commit}});
  }
  Json commits{{"branches", std::move(branches)}};
  auto import = CommitImport::prepare(overlay, **found, (*found)->brings.front().commit, in_git);
  if (import.ok()) {
    Result<CommitImport::Description> described = (*import)->describe((*found)->brings);
    if (described.ok()) commits["count"] = described->count;
  }
  answer.structured["commits"] = std::move(commits);
}

// What a session has changed in its project, as `warren diff` shows it.
Result<ToolAnswer> project_answer(ToolContext& context, const Json& arguments) {
  ShownPaths paths{.is_project = true};
  OverlayAgent opened = WARREN_TRY(open_overlay(context.agent.path(), OpenMode::kReadOnly, context.clock));
  auto view = WARREN_TRY(opened.overlay.upper.begin(UnitAccess::kRead));  // what is listed is still there for the patch
  std::vector<TreeChange> all = WARREN_TRY(list_changes(opened.overlay));
  std::vector<TreeChange> in_git = WARREN_TRY(leave_out_git(opened.overlay, all, {}));
  std::size_t count = all.size();
  std::vector<TreeChange> changes = WARREN_TRY(visible_changes(context, paths, std::move(all)));
  WARREN_TRY(context.view.record("diff", kProjectPath, Status(Ok{})));
  ToolAnswer answer = listed(arguments, paths, changes);
  if (flag_argument(arguments, "patch")) {
    answer.text = WARREN_TRY(
        patch_text(context, [&](const PatchSink& sink) { return write_patch(opened.overlay, changes, sink); }));
    answer.structured["patch"] = answer.text;
  }
  end_text(answer, count - changes.size());
  add_commits(opened.overlay, in_git, answer);
  return answer;
}

// What an agent file from elsewhere says about its base is not believed: the base could be any directory.
Status check_base_is_known(const ToolContext& context) {
  if (!context.agent.base()) return Ok{};
  std::optional<BaseNote> note = WARREN_TRY(find_base_note(context.agent.path()));
  if (note && note->base == *context.agent.base()) return Ok{};
  return Error(Code::kDenied, "this agent file came from elsewhere, and nobody has agreed to its base",
               "Ask the operator what has changed.");
}

Result<ToolAnswer> diff_answer(ToolContext& context, const Json& arguments) {
  WARREN_TRY(check_base_is_known(context));
  if (arguments.contains("from")) return past_answer(context, arguments);
  if (context.agent.base() && !arguments.contains("to")) return project_answer(context, arguments);
  return Error(Code::kInvalid, "'from' is missing: the checkpoint to compare with", "List them: history {}");
}

Json diff_input() {
  return object_schema(
      {{"from", text_schema("a checkpoint: its id or name; of a session, default: the project as it was")},
       {"to", text_schema("a later one; default: now")},
       {"patch", flag_schema("also return the changed lines, up to 256 KiB")},
       {"limit", whole_number_schema("changes; default 500, at most 1000", 1)}},
      {});
}

Json diff_output() {
  Json change = object_schema({{"change", text_schema("")},
                               {"path", text_schema("")},
                               {"path_base64", text_schema("")},
                               {"from", text_schema("")},
                               {"from_base64", text_schema("")}},
                              {"change", "path"});
  Json names = list_schema("", text_schema(""));
  Json branch =
      object_schema({{"branch", text_schema("in the session")}, {"commit", text_schema("")}}, {"branch", "commit"});
  Json commits =
      object_schema({{"branches", list_schema("with commits that the project's repository does not have", branch)},
                     {"count", whole_number_schema("commits on them", 0)}},
                    {"branches"});
  return object_schema(
      {{"changes", list_schema("", std::move(change))},
       {"total", whole_number_schema("", 0)},
       {"left_out", whole_number_schema("changes that may not be read here; apply refuses them", 0)},
       {"keys",
        object_schema(
            {{"added", names}, {"modified", names}, {"deleted", names}, {"total", whole_number_schema("", 0)}}, {})},
       {"commits", std::move(commits)},
       {"patch", text_schema("")}},
      {"changes", "total", "left_out", "keys"});
}

}  // namespace

const Tool& diff_tool() {
  static constexpr Tool kTool{
      .name = "diff",
      .title = "Show changes",
      .group = "checkpoints",
      .description =
          "Show which files and keys changed since a checkpoint, or between two; in a session without "
          "\"from\": what it has changed in the project. Use it to review work before apply or restore. "
          "Returns the changes and, with patch, their lines. Example: {\"from\": \"before-rewrite\", "
          "\"patch\": true}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = diff_input,
      .output_schema = diff_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return checkpoint_answer(diff_answer(context, arguments));
      }};
  return kTool;
}

}  // namespace warren
