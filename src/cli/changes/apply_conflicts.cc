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

// Nothing that has been tried already, or cannot help.
std::string_view advice_about(const Arguments& args, const std::vector<ApplyConflict>& conflicts) {
  bool is_all_encrypted = !conflicts.empty() && std::all_of(conflicts.begin(), conflicts.end(),
                                                            [](const ApplyConflict& one) { return one.is_encrypted; });
  if (is_all_encrypted) {
    return "encrypted files cannot be merged, because what the agent started from is not kept: --force takes the "
           "agent's version, PATH limits what is applied";
  }
  bool is_all_deleted = !conflicts.empty() && std::all_of(conflicts.begin(), conflicts.end(),
                                                          [](const ApplyConflict& one) { return one.is_deletion; });
  if (is_all_deleted) {
    return "the agent has deleted them: --force deletes them with what was changed there, `warren discard` with their "
           "paths keeps them, PATH limits what is applied";
  }
  bool is_any_incomplete =
      std::any_of(conflicts.begin(), conflicts.end(), [](const ApplyConflict& one) { return one.is_incomplete; });
  if (is_any_incomplete) {
    return "a file with lost parts cannot be applied, not even with --force: PATH limits what is applied, `warren "
           "discard` with its path drops it; what the agent wrote of it can be read in its session until then. Try "
           "again first if the session runs: it may still be copying them";
  }
  if (!args.has("merge") && !args.has("conflict")) {
    return "--merge merges text files where possible, --force takes the agent's version, PATH limits what is applied";
  }
  if (!args.has("conflict")) {
    return "they cannot be merged: --conflict=markers writes both versions of a text file, --force takes the agent's, "
           "PATH limits what is applied";
  }
  return "one side has deleted these, or they are not text, or the version that the agent started from was not kept: "
         "--force takes the agent's version, also where it has deleted the file, PATH limits what is applied";
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
  context.err.line(fmt::format("hint: {}{}", advice_about(args, conflicts),
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
