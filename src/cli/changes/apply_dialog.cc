#include "cli/changes/apply_dialog.h"

#include <unordered_map>

#include <fmt/format.h>

#include "changes/conflicts.h"
#include "changes/patch.h"
#include "cli/changes/changes_output.h"
#include "os/fd.h"

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

Status show_patch(Context& context, const AgentOverlay& overlay, const TreeChange& change) {
  return write_patch(overlay, {change}, [&](std::string_view text) -> Status {
    while (!text.empty()) {
      std::size_t end = text.find('\n');
      context.err.line(printable_line(text.substr(0, end)));
      text = end == text.npos ? std::string_view() : text.substr(end + 1);
    }
    return Ok{};
  });
}

enum class Answer { kYes, kNo, kAll, kQuit };

Result<Answer> ask_about(Context& context, const AgentOverlay& overlay, const TreeChange& change,
                         const std::string* conflict, ApplyOptions& options) {
  Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
  std::string line = change_line(context.err, change) + remarks_text(context.err, remarks);
  if (conflict != nullptr) line += fmt::format("  (conflict: {})", *conflict);
  for (;;) {
    std::string answer = WARREN_TRY(ask(context, fmt::format("{}\n  [y]es [n]o [d]iff [m]erge [a]ll [q]uit? ", line)));
    char letter = answer.empty() ? '?' : answer[0];
    switch (letter) {
      case 'y': return Answer::kYes;
      case 'n': return Answer::kNo;
      case 'a': return Answer::kAll;
      case 'q': return Answer::kQuit;
      case 'd': WARREN_TRY(show_patch(context, overlay, change)); break;
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
            "  y: write it; n: skip it; d: show it; m: merge it with the base's version; a: this and all "
            "remaining changes without conflicts; q: quit and write nothing");
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
      if (reason == nullptr) chosen.take(i);
      continue;
    }
    Answer answer = WARREN_TRY(ask_about(context, overlay, all[i], reason, options));
    if (answer == Answer::kQuit) {
      context.err.line("nothing was written");
      return false;
    }
    takes_rest = answer == Answer::kAll;
    if (answer != Answer::kNo) chosen.take(i);
  }
  return true;
}

}  // namespace warren::cli
