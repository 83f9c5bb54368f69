#include "cli/changes_output.h"

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "changes/apply.h"
#include "cli/text.h"
#include "cli/values.h"
#include "os/fd.h"

namespace warren::cli {

namespace {

void tell(Output& err, const Recovery& recovery) {
  if (recovery.is_finished) {
    err.line("an apply of this agent was cut off; it is finished now");
    return;
  }
  err.print("an apply of this agent was cut off, and the base is again as it was before: {}\n",
            err.name(recovery.reason));
  for (const std::string& path : recovery.left) {
    err.print("not put back, because something else is there now: {} (the old one is in {} in the base)\n",
              err.name(path), err.name(recovery.staging));
  }
}

Result<OverlayAgent> open_as_it_is(Context& context, const std::string& id, Use use) {
  OpenMode mode = use == Use::kRead ? OpenMode::kReadOnly : OpenMode::kReadWrite;
  auto agent = WARREN_TRY(Agent::open({.id_or_path = id, .mode = mode}, context.clock));
  std::optional<AgentOverlay> overlay = agent->overlay();
  if (!overlay) {
    return Error(Code::kInvalid, fmt::format("{} lies over no base: there is nothing to compare it with", quote(id)),
                 "`warren init --base DIR` and `warren run` make agents that do");
  }
  return OverlayAgent{std::move(agent), *overlay};
}

}  // namespace

Result<OverlayAgent> open_overlay(Context& context, const std::string& id, Use use) {
  OverlayAgent opened = WARREN_TRY(open_as_it_is(context, id, use));
  bool needs_it = WARREN_TRY(needs_recovery(*opened.agent));
  if (!needs_it) return opened;
  opened.agent.reset();
  {
    OverlayAgent writable = WARREN_TRY(open_as_it_is(context, id, Use::kWrite));
    Result<std::optional<Recovery>> recovery = recover_apply(*writable.agent);
    bool is_elsewhere = !recovery.ok() && recovery.error().code() == Code::kBusy && use == Use::kRead;
    if (!recovery.ok() && !is_elsewhere)
      return std::move(recovery).take_error().within("finish an apply that was cut off");
    if (recovery.ok() && *recovery) tell(context.err, **recovery);
  }
  return open_as_it_is(context, id, use);
}

std::string_view change_word(TreeChangeKind kind) {
  switch (kind) {
    case TreeChangeKind::kAdded: return "added";
    case TreeChangeKind::kModified: return "modified";
    case TreeChangeKind::kDeleted: return "deleted";
    case TreeChangeKind::kRenamed: return "renamed";
  }
  return "?";
}

std::string_view type_word_of(const TreeChange& change) { return type_word(change.node().mode); }

std::string change_line(const Output& out, const TreeChange& change) {
  std::string line = fmt::format("{} {} ", change.letter(), change.type_letter());
  if (change.kind == TreeChangeKind::kRenamed) line += out.name(change.base_path) + " -> ";
  return line + out.name(change.path);
}

std::string printable_line(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    std::size_t tab = line.find('\t');
    text += printable(line.substr(0, tab));
    if (tab == line.npos) break;
    text += '\t';
    line.remove_prefix(tab + 1);
  }
  return text;
}

std::string summary_text(const ChangeSummary& sum) {
  std::string text;
  auto add = [&](std::uint64_t count, std::string_view word) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, word);
  };
  add(sum.added, "added");
  add(sum.modified, "modified");
  add(sum.renamed, "renamed");
  add(sum.deleted, "deleted");
  return text.empty() ? "nothing" : text;
}

Result<bool> ask_yes(Context& context, std::string_view question) {
  context.err.print("{} [y/N] ", question);
  std::string line;
  char byte = '\0';
  for (;;) {
    std::size_t count = WARREN_TRY(read_some(context.input, MutableBytes(reinterpret_cast<std::byte*>(&byte), 1)));
    if (count == 0 || byte == '\n') break;
    line += byte;
  }
  return line.starts_with('y') || line.starts_with('Y');
}

}  // namespace warren::cli
