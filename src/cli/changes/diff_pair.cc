#include "cli/changes/diff_pair.h"

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/record/audit_trail.h"
#include "changes/filter.h"
#include "changes/review/session_diff.h"
#include "cli/changes/changes_output.h"
#include "cli/show/pager.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

Json pair_json(const std::vector<SessionDifference>& differences) {
  Json list = Json::array();
  for (const SessionDifference& one : differences) {
    Json item{{"change", one.letter() == 'A' ? "added" : one.letter() == 'D' ? "deleted" : "modified"}};
    set_bytes(item, "path", one.path);
    list.push_back(std::move(item));
  }
  return list;
}

Status show_pair(Context& context, const Arguments& args, const AgentOverlay& before, const AgentOverlay& after,
                 const std::vector<SessionDifference>& differences) {
  Output& out = context.out;
  if (args.has("json")) {
    out.json(pair_json(differences));
    return out.status();
  }
  if (args.has("patch")) {
    auto sink = [&](std::string_view text) {
      print_patch_text(out, text);
      return out.status();
    };
    return write_session_patch(before, after, differences, sink,
                               out.is_terminal() ? BinaryContent::kMentioned : BinaryContent::kIncluded);
  }
  char end = args.has("null") ? '\0' : '\n';
  for (const SessionDifference& one : differences) {
    std::string line =
        args.has("name-only")
            ? ""
            : fmt::format("{} {} ", one.letter(), (one.after ? *one.after : *one.before).is_symlink() ? 'l' : 'f');
    out.write(line + (args.has("null") ? out.exact_name(one.path) : path_in_line(one.path)) + end);
  }
  return out.status();
}

// As for one session: a path that neither of them has is misspelled.
Status check_paths_of_pair(const AgentOverlay& before, const AgentOverlay& after, const std::vector<std::string>& paths,
                           const std::vector<SessionDifference>& differences) {
  std::vector<TreeChange> changes;
  for (const SessionDifference& one : differences) {
    TreeChange change;
    change.path = one.path;
    change.base_path = one.path;
    changes.push_back(std::move(change));
  }
  for (const std::string& path : paths) {
    Status in_before = check_paths(before, {path}, changes);
    if (!in_before.ok() && !check_paths(after, {path}, changes).ok()) return in_before;
  }
  return Ok{};
}

}  // namespace

std::optional<std::pair<std::string, std::string>> find_pair(std::string_view id) {
  std::size_t at = id.find("..");
  if (at == id.npos) return std::nullopt;
  std::string_view first = id.substr(0, at);
  std::string_view second = id.substr(at + 2);
  if (!is_agent_id(session_id_of(first)) || !is_agent_id(session_id_of(second))) return std::nullopt;
  return std::pair(std::string(first), std::string(second));
}

Result<Exit> diff_pair(Context& context, const Arguments& args, const std::pair<std::string, std::string>& ids) {
  if (args.has("stat")) return refuse(context, "--stat cannot be used with two sessions; -p prints the patch");
  OverlayAgent before = WARREN_TRY(open_to_show(context, ids.first));
  OverlayAgent after = WARREN_TRY(open_to_show(context, ids.second));
  std::vector<std::string> paths = WARREN_TRY(paths_of(args, before.overlay));
  std::vector<SessionDifference> differences = WARREN_TRY(diff_sessions(before.overlay, after.overlay));
  WARREN_TRY(check_paths_of_pair(before.overlay, after.overlay, paths, differences));
  ChangeFilter filter = filter_of(paths, excluded_of(args));
  if (filter) std::erase_if(differences, [&](const SessionDifference& one) { return !filter(one.path); });
  WARREN_TRY(record_reading(*before.agent, "diff", paths));
  WARREN_TRY(record_reading(*after.agent, "diff", paths));
  {
    bool is_for_people = !args.has("json") && !args.has("name-only") && !args.has("null") && !args.has("no-pager");
    std::optional<Paged> paged;
    if (is_for_people) paged.emplace(context);
    WARREN_TRY(show_pair(context, args, before.overlay, after.overlay, differences));
  }
  return args.has("exit-code") && !differences.empty() ? Exit::kFailed : Exit::kOk;
}

}  // namespace warren::cli
