#include "cli/changes/diff_overview.h"

#include <unordered_map>

#include <fmt/format.h>

#include "changes/commits/commits.h"
#include "changes/commits/ignored.h"
#include "changes/conflicts.h"
#include "changes/review/overview.h"
#include "changes/review/remarks.h"
#include "cli/changes/changes_output.h"
#include "cli/syntax/values.h"
#include "text/glob.h"

namespace warren::cli {
namespace {

// Whether the agent has commits, whose branch apply brings.
bool has_committed(const AgentOverlay& overlay) {
  Result<std::optional<AgentCommits>> commits = find_commits(overlay);
  return commits.ok() && commits->has_value();
}

Ink ink_of(char letter) {
  switch (letter) {
    case 'A': return Ink::kGreen;
    case 'D': return Ink::kRed;
    case 'R': return Ink::kCyan;
    default: return Ink::kPlain;
  }
}

// What apply does with files that git ignores.
enum class Ignored { kApplied, kStay };

std::string_view ignored_note(Ignored ignored) {
  return ignored == Ignored::kStay ? "git ignores it: stays in the session" : "git ignores it";
}

std::string folded_line(const Output& out, const OverviewLine& line, Ignored ignored) {
  std::string note = line.is_ignored ? fmt::format("; {}", ignored_note(ignored)) : "";
  std::string what = line.letter == 'M' ? "change" : "file";
  return fmt::format("{} d {}/ ({} {}{}, {}{})", out.paint(ink_of(line.letter), std::string(1, line.letter)),
                     path_in_line(line.folded), line.changes, what, line.changes == 1 ? "" : "s", out.size(line.bytes),
                     note);
}

std::string single_line(const Output& out, const TreeChange& change) {
  std::string line = change_line(change);
  return out.paint(ink_of(line[0]), line.substr(0, 1)) + line.substr(1);
}

// "  [only its mode: 644 to 755]", or "".
std::string metadata_remark(const TreeChange& change) {
  std::string metadata = metadata_note(change);
  return metadata.empty() ? "" : fmt::format("  [{}]", metadata);
}

// `notes`: one for each change, to be added to its line.
void print_overview_lines(Output& out, const std::vector<TreeChange>& changes, const OverviewOptions& options,
                          const std::vector<std::string>& notes, Ignored ignored) {
  for (const OverviewLine& line : make_overview(changes, options)) {
    if (!line.folded.empty()) {
      out.line(folded_line(out, line, ignored));
      continue;
    }
    out.line(single_line(out, *line.change) + notes[static_cast<std::size_t>(line.change - changes.data())]);
  }
}

}  // namespace

void print_past_overview(Output& out, const std::vector<TreeChange>& changes, Fold fold) {
  OverviewOptions options;
  std::vector<std::string> notes;
  for (const TreeChange& change : changes) {
    notes.push_back(metadata_remark(change));
    options.notable.push_back(fold == Fold::kNo || !notes.back().empty());
  }
  print_overview_lines(out, changes, options, notes, Ignored::kApplied);
}

Status print_overview(Output& out, const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                      const std::vector<std::string>& named, Fold fold) {
  std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay, changes));
  std::unordered_map<std::string_view, const std::string*> conflict_at;
  for (const ApplyConflict& one : conflicts) conflict_at.emplace(one.path, &one.why);
  OverviewOptions options;
  Result<IgnoredPaths> known = find_ignored(overlay, changes, Rules::kBase);  // an agent's own rules fold nothing
  if (known.ok()) options.ignored = *std::move(known);
  Ignored ignored = has_committed(overlay) ? Ignored::kStay : Ignored::kApplied;
  IgnoredPaths staying;
  if (ignored == Ignored::kStay) {
    Result<IgnoredPaths> found = find_ignored(overlay, changes, Rules::kAgent);
    if (!found.ok()) return std::move(found).take_error();
    staying = *std::move(found);
  }
  std::erase_if(options.ignored,
                [&](const auto& one) { return ignored == Ignored::kStay && !staying.contains(one.first); });
  std::vector<std::string> notes;
  for (const TreeChange& change : changes) {
    bool stays = staying.contains(change.path);
    Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
    std::string note = remarks_text(out, remarks);
    if (note.empty()) note = metadata_remark(change);
    auto conflict = conflict_at.find(change.path);
    bool is_conflict = conflict != conflict_at.end() && !stays;
    if (is_conflict && change.is_in_commits) note += "  [changed in the base, too: git merges the commits]";
    else if (is_conflict) note += "  " + out.paint(Ink::kRed, fmt::format("[conflict: {}]", *conflict->second));
    options.notable.push_back(fold == Fold::kNo || !note.empty());
    if (stays) note += fmt::format("  [{}]", ignored_note(ignored));
    notes.push_back(std::move(note));
  }
  for (const std::string& path : named) {
    if (Glob(path).is_plain()) options.named.push_back(path.starts_with('/') ? path : "/" + path);
  }
  print_overview_lines(out, changes, options, notes, ignored);
  return out.status();
}

}  // namespace warren::cli
