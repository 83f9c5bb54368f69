#include "cli/changes/apply_dialog.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/printable.h"
#include "changes/conflicts.h"
#include "changes/review/parts.h"
#include "changes/review/patch.h"
#include "cli/changes/changes_output.h"
#include "os/fd.h"
#include "text/diff/unified.h"

namespace warren::cli {
namespace {

Result<std::string> ask(Context& context, std::string_view question) {
  context.err.write(question);
  std::string line;
  char byte = '\0';
  for (;;) {
    std::size_t count = WARREN_TRY(read_some(context.input, MutableBytes(reinterpret_cast<std::byte*>(&byte), 1)));
    if (count == 0) return std::string("q");
    if (byte == '\n') return line;
    line += byte;
  }
}

void show_text(Context& context, std::string_view text) {
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    context.err.line(printable_text(text.substr(0, end)));
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
}

Status show_patch(Context& context, const AgentOverlay& overlay, const TreeChange& change) {
  auto sink = [&](std::string_view text) -> Status {
    show_text(context, text);
    return Ok{};
  };
  return write_patch(overlay, {change}, sink, BinaryContent::kMentioned);
}

enum class Answer { kYes, kNo, kAll, kQuit };

// Asks about each hunk; nullopt if the user quits.
Result<std::optional<std::vector<bool>>> ask_about_hunks(Context& context, const std::string& before,
                                                         const std::string& after, const std::vector<Hunk>& hunks) {
  std::vector<bool> is_taken(hunks.size(), false);
  for (std::size_t i = 0; i < hunks.size();) {
    show_text(context, unified_hunks(before, after, {hunks[i]}));
    std::string answer =
        WARREN_TRY(ask(context, fmt::format("  part {} of {}: [y]es [n]o [a]ll the rest [d]one [q]uit [?]help ", i + 1,
                                            hunks.size())));
    switch (answer.empty() ? '?' : answer[0]) {
      case 'y': is_taken[i++] = true; break;
      case 'n': ++i; break;
      case 'a':
        std::fill(is_taken.begin() + static_cast<long>(i), is_taken.end(), true);
        return std::optional(is_taken);
      case 'd': return std::optional(is_taken);
      case 'q': return std::optional<std::vector<bool>>();
      default:
        context.err.line(
            "  y: write this part; n: skip it; a: this and the rest of the file; d: neither this nor the rest of the "
            "file; q: quit and write nothing");
    }
  }
  return std::optional(is_taken);
}

// What was not taken stays a change of the agent. nullopt if the file cannot be split.
Result<std::optional<Answer>> split_file(Context& context, const AgentOverlay& overlay, const TreeChange& change,
                                         ApplyOptions& options) {
  std::optional<ChangeParts> parts = WARREN_TRY(load_parts(overlay, change));
  if (!parts) return std::optional<Answer>();
  std::optional<std::vector<bool>> is_taken =
      WARREN_TRY(ask_about_hunks(context, parts->before, parts->after, parts->hunks));
  if (!is_taken) return std::optional(Answer::kQuit);
  if (std::count(is_taken->begin(), is_taken->end(), true) == 0) return std::optional(Answer::kNo);
  take_parts(change, *parts, *is_taken, options);
  return std::optional(Answer::kYes);
}

Result<Answer> ask_about(Context& context, const AgentOverlay& overlay, const TreeChange& change,
                         const std::string* conflict, ApplyOptions& options) {
  Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
  std::string line = change_line(change) + remarks_text(context.err, remarks);
  if (conflict != nullptr) line += fmt::format("  (conflict: {})", *conflict);
  std::optional<ChangeParts> parts = WARREN_TRY(load_parts(overlay, change));
  if (parts) line += fmt::format("  ({} part{})", parts->hunks.size(), parts->hunks.size() == 1 ? "" : "s");
  for (;;) {
    std::string answer =
        WARREN_TRY(ask(context, fmt::format("{}\n  [y]es [n]o [s]plit [d]iff [m]erge [a]ll [q]uit [?]help ", line)));
    char letter = answer.empty() ? '?' : answer[0];
    switch (letter) {
      case 'y': return Answer::kYes;
      case 'n': return Answer::kNo;
      case 'a': return Answer::kAll;
      case 'q': return Answer::kQuit;
      case 'd': WARREN_TRY(show_patch(context, overlay, change)); break;
      case 's': {
        std::optional<Answer> split = WARREN_TRY(split_file(context, overlay, change, options));
        if (split) return *split;
        context.err.line("  it has no parts: it is not a text file that the base still has as the agent saw it");
        break;
      }
      case 'm': {
        std::optional<std::string> merged = WARREN_TRY(merge_change(overlay, change));
        if (merged) {
          options.contents.insert_or_assign(change.path, *std::move(merged));
          return Answer::kYes;
        }
        context.err.line("  it cannot be merged automatically");
        break;
      }
      default:
        context.err.line(
            "  y: write it; n: skip it; s: decide about each part of it; d: show it; m: merge it with the base's "
            "version; a: this and all "
            "remaining changes without conflicts, except files that run by themselves; q: quit and write nothing");
    }
  }
}

}  // namespace

Result<bool> choose_changes(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                            const ChangeFilter& filter, Selection& chosen, ApplyOptions& options) {
  std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay, all));
  std::unordered_map<std::string_view, const std::string*> why;
  for (const ApplyConflict& conflict : conflicts) why.emplace(conflict.path, &conflict.why);
  bool takes_rest = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool is_asked =
        !filter || filter(all[i].path) || (all[i].kind == TreeChangeKind::kRenamed && filter(all[i].base_path));
    if (!is_asked || chosen.has(i)) continue;
    auto conflict = why.find(all[i].path);
    const std::string* reason = conflict == why.end() ? nullptr : conflict->second;
    if (takes_rest) {
      Remarks remarks = WARREN_TRY(remarks_of(overlay, all[i]));
      bool is_asked_always = !remarks.runs.empty();
      if (!is_asked_always && reason == nullptr) chosen.take(i);
      if (!is_asked_always) continue;
    }
    Answer answer = WARREN_TRY(ask_about(context, overlay, all[i], reason, options));
    if (answer == Answer::kQuit) {
      context.err.line("nothing was written");
      return false;
    }
    takes_rest = takes_rest || answer == Answer::kAll;
    if (answer != Answer::kNo) chosen.take(i);
  }
  return true;
}

}  // namespace warren::cli
