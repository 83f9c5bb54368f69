// Shared by diff, apply and discard: opens an agent that has a base, and formats its changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "changes/change_word.h"
#include "changes/changes.h"
#include "changes/review/remarks.h"
#include "changes/upper/open_overlay.h"
#include "cli/context.h"

namespace warren::cli {

void print_vanished(Output& err, const std::vector<std::string>& paths);       // what leave_out_vanished returns
void print_changed_since(Output& err, const std::vector<std::string>& paths);  // ApplyReport::changed_since
// Prints to standard error that an interrupted apply, or undo, was finished or taken back.
void print_recovery(Output& err, const Recovery& recovery);
void print_recovery(Output& err, const UndoRecovery& recovery);

std::string_view type_word_of(const TreeChange& change);  // "file"
// Printable, with each backslash doubled: two names never look alike, and none can pretend to be a second line.
std::string path_in_line(std::string_view path);
std::string change_line(const TreeChange& change);  // "M f /path", "R f /old -> /new"

// What changed besides the content: "only its mode: 644 to 755", "also its mode: ..." where a file has become a program
// or none. "" for others.
std::string metadata_note(const TreeChange& change);
// The remarks of a change, to be added to its line: "  [set-user-id]"; "" without any.
std::string remarks_text(const Output& out, const Remarks& remarks);

// Opens an agent with a base to show its changes: for writing where reading is to be recorded.
Result<OverlayAgent> open_to_show(Context& context, const std::string& id);
// A part of a patch: exact for a program, coloured and printable on a terminal.
void print_patch_text(Output& out, std::string_view text);

// The PATH arguments, from the current directory if that is in the base. Those of `warren home` from the home itself.
Result<std::vector<std::string>> paths_of(const Arguments& args, const AgentOverlay& overlay);
std::vector<std::string> excluded_of(const Arguments& args);  // of --exclude
Option exclude_option();

// Says on standard error that changes in .agentfs folders are not shown or applied, if there are any.
void print_left_out_folders(Output& err, std::size_t count);

// "a, b and 3 more", printable.
std::string listed_names(const std::vector<std::string>& names, std::size_t shown_max);

// "3 added, 1 deleted", or "nothing".
std::string summary_text(const ChangeSummary& sum);

// Asks on the terminal; an answer that begins with y or Y means yes.
Result<bool> ask_yes(Context& context, std::string_view question);

}  // namespace warren::cli
