#include "cli/changes/apply_conflicts.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/show/text.h"

namespace warren::cli {
namespace {

Json conflicts_json(const std::vector<ApplyConflict>& conflicts) {
  Json list = Json::array();
  for (const ApplyConflict& conflict : conflicts) {
    Json item;
    set_bytes(item, "path", conflict.path);
    item["why"] = conflict.why;
    list.push_back(std::move(item));
  }
  return list;
}

constexpr std::string_view kForce = "--force takes the agent's version, PATH limits what is applied";
constexpr std::string_view kOneByOne =
    "`warren review` or `warren apply -i` asks about each, --force takes the agent's version, `warren discard` with "
    "their paths drops it, PATH limits what is applied";

// "they cannot be merged (it is not text)", with the reason if it is the same for all.
std::string describe_unmergeable(const std::vector<ApplyConflict>& conflicts) {
  std::string_view why = conflicts.front().why_not_merged;
  bool is_same_for_all = !why.empty() && std::ranges::all_of(conflicts, [&](const ApplyConflict& one) {
    return one.why_not_merged == why;
  });
  if (is_same_for_all) return fmt::format("they cannot be merged ({})", why);
  bool is_any_mergeable =
      std::ranges::any_of(conflicts, [](const ApplyConflict& one) { return one.merge != MergeResult::kNone; });
  return is_any_mergeable ? "not all of them can be merged" : "they cannot be merged";
}

// Of conflicts that are all of one kind which no merge resolves. "" if there is none such.
std::string_view advice_about_kind(const std::vector<ApplyConflict>& conflicts) {
  auto are_all = [&](auto is_so) { return std::ranges::all_of(conflicts, is_so); };
  if (are_all([](const ApplyConflict& one) { return one.is_encrypted; })) {
    return "encrypted files cannot be merged, because what the agent started from is not kept: --force takes the "
           "agent's version, PATH limits what is applied";
  }
  if (are_all([](const ApplyConflict& one) { return one.is_replaced && one.is_new; })) {
    return "rename what the agent has there, in its session, and apply again; or --force puts it in the place of the "
           "base's, which `warren undo` brings back. `warren discard` with these paths drops the agent's, PATH limits "
           "what is applied";
  }
  if (are_all([](const ApplyConflict& one) { return one.is_replaced; })) {
    return "--force puts what the agent has there in the place of the base's, which `warren undo` brings back. "
           "`warren discard` with these paths drops the agent's, PATH limits what is applied";
  }
  if (are_all([](const ApplyConflict& one) { return one.is_deletion && !one.is_replaced; })) {
    return "the agent has deleted them: --force deletes them with what was changed there, `warren discard` with their "
           "paths keeps them, PATH limits what is applied";
  }
  if (are_all([](const ApplyConflict& one) { return one.is_lost; })) {
    return "they are gone from the base: --force writes the agent's version, `warren discard` with these paths drops "
           "it, PATH limits what is applied";
  }
  return "";
}

// Nothing that has been tried already, or cannot help.
std::string advice_about(const std::vector<ApplyConflict>& conflicts) {
  bool is_any_incomplete = std::ranges::any_of(conflicts, &ApplyConflict::is_incomplete);
  if (is_any_incomplete) {
    return "a file with lost parts cannot be applied, not even with --force: PATH limits what is applied, `warren "
           "discard` with its path drops it; what the agent wrote of it can be read in its session until then. Try "
           "again first if the session runs: it may still be copying them";
  }
  if (std::ranges::any_of(conflicts, &ApplyConflict::is_hidden)) {
    return "what was hidden from the agent is never replaced, not even with --force: PATH limits what is applied, "
           "`warren discard` with its path drops the change";
  }
  if (std::ranges::any_of(conflicts, &ApplyConflict::is_blocked)) {
    return "what the base has in place of a directory is never replaced, not even with --force: move it away, and "
           "apply again; or `warren discard` with the paths below it drops the changes, PATH limits what is applied";
  }
  if (std::string_view advice = advice_about_kind(conflicts); !advice.empty()) return std::string(advice);
  auto count = [&](MergeResult result) {
    return static_cast<std::size_t>(std::ranges::count(conflicts, result, &ApplyConflict::merge));
  };
  std::size_t clean = count(MergeResult::kClean);
  std::size_t marked = count(MergeResult::kMarked);
  if (clean == conflicts.size()) return fmt::format("--merge merges them, {}", kForce);
  if (clean + marked < conflicts.size()) return fmt::format("{}: {}", describe_unmergeable(conflicts), kOneByOne);
  return fmt::format(
      "both sides changed the same lines of {}: --conflict=markers merges the rest and writes both versions of these, "
      "`warren review` or `warren apply -i` decides by parts, {}",
      marked == 1 ? "one file" : fmt::format("{} files", marked), kForce);
}

}  // namespace

Result<ResolvedConflicts> resolve_conflicts(const Arguments& args, const AgentOverlay& overlay,
                                            const std::vector<TreeChange>& changes, MergedContents& contents) {
  ConflictPolicy policy = args.has("conflict") ? ConflictPolicy::kMark
                          : args.has("merge")  ? ConflictPolicy::kMerge
                                               : ConflictPolicy::kKeep;
  return warren::resolve_conflicts(overlay, changes, policy, contents);
}

void print_conflicts(Context& context, const Arguments& args, const std::vector<ApplyConflict>& conflicts,
                     const std::vector<ApplyQuestion>& questions, HasCommits has_commits) {
  if (args.has("json")) {
    Json json{{"applied", Json::array()}, {"conflicts", conflicts_json(conflicts)}};
    if (args.has("dry-run")) json["asks"] = questions_json(questions);
    context.out.json(json);
  } else {
    print_questions(context.out, questions);
    for (const ApplyConflict& conflict : conflicts) {
      context.err.print("conflict: {}: {}\n", context.err.name(conflict.path), conflict.why);
    }
  }
  context.err.line(fmt::format("{} {}: nothing was written", context.err.paint(Ink::kRed, "warren:"),
                               conflicts.size() == 1 ? "1 conflict" : fmt::format("{} conflicts", conflicts.size())));
  context.err.line(fmt::format("hint: {}{}", advice_about(conflicts),
                               has_commits == HasCommits::kYes ? ", --commits brings only the commits" : ""));
}

void print_questions(Output& out, const std::vector<ApplyQuestion>& questions) {
  for (const ApplyQuestion& question : questions) {
    for (const ApplyQuestion::File& file : question.files) {
      if (!file.runs.empty()) out.print("runs by itself: {}: {}\n", out.name(file.path), file.runs);
    }
    out.print("apply will ask, or needs {}: {}\n", out.name(question.agree), out.name(question.why));
  }
}

Json questions_json(const std::vector<ApplyQuestion>& questions) {
  Json list = Json::array();
  for (const ApplyQuestion& question : questions) {
    Json item{{"about", question.about}, {"why", printable(question.why)}, {"agree", printable(question.agree)}};
    Json files = Json::array();
    for (const ApplyQuestion::File& file : question.files) {
      Json one = Json::object();
      if (!file.runs.empty()) one["runs"] = file.runs;
      set_bytes(one, "path", file.path);
      files.push_back(std::move(one));
    }
    if (!question.files.empty()) item["files"] = std::move(files);
    list.push_back(std::move(item));
  }
  return list;
}

Option conflict_option() {
  return {.name = "conflict",
          .value = "HOW",
          .help = "like --merge, and where both changed the same lines, write both between conflict markers",
          .choices = {"markers"}};
}

}  // namespace warren::cli
