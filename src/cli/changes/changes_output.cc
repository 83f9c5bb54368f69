#include "cli/changes/changes_output.h"

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/printable.h"
#include "changes/filter.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren::cli {

void print_vanished(Output& err, const std::vector<std::string>& paths) {
  constexpr std::size_t kNamed = 5;
  for (std::size_t i = 0; i < paths.size() && i < kNamed; ++i) {
    err.print("left out, since the agent removed or replaced it meanwhile: {}\n", err.name(paths[i]));
  }
  if (paths.size() > kNamed) err.print("left out for the same reason: {} more\n", paths.size() - kNamed);
}

void print_changed_since(Output& err, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    err.print("the agent changed {} again during the apply: that change is not applied yet\n", err.name(path));
  }
}

void print_recovery(Output& err, const Recovery& recovery) {
  if (recovery.is_finished) {
    err.line("an apply of this agent was interrupted; it is finished now");
    print_changed_since(err, recovery.changed_since);
    return;
  }
  err.print("an interrupted apply of this agent was undone ({})\n", err.name(recovery.reason));
  for (const LeftNode& node : recovery.left) err.line("except " + err.name(describe(node)));
}

void print_recovery(Output& err, const UndoRecovery& recovery) {
  if (recovery.failure) {
    err.print("an undo in {} was interrupted, and cannot be finished: {}\n", err.name(recovery.record.base),
              err.name(recovery.failure->message()));
    return;
  }
  err.print("an undo in {} was interrupted; it {}\n", err.name(recovery.record.base),
            recovery.is_finished ? "is finished now" : fmt::format("was taken back ({})", err.name(recovery.reason)));
  for (const LeftNode& node : recovery.left) err.line("except " + err.name(describe(node)));
  for (const std::string& note : recovery.notes) err.line(err.name(note));
}

std::string_view type_word_of(const TreeChange& change) { return type_word(change.node().mode); }

std::string path_in_line(std::string_view path) {
  std::string doubled;
  for (char byte : path) doubled.append(byte == '\\' ? 2 : 1, byte);
  return printable(doubled);
}

std::string change_line(const TreeChange& change) {
  std::string line = fmt::format("{} {} ", change.letter(), change.type_letter());
  if (change.kind == TreeChangeKind::kRenamed) line += path_in_line(change.base_path) + " -> ";
  return line + path_in_line(change.path);
}

std::string metadata_note(const TreeChange& change) {
  bool is_about_metadata = change.kind == TreeChangeKind::kModified && change.is_metadata_changed;
  if (!is_about_metadata || !change.before || !change.after) return {};
  constexpr std::uint32_t kBits = 07777;
  constexpr std::uint32_t kRunBits = 0111;
  std::uint32_t was = change.before->mode & kBits;
  std::uint32_t is = change.after->mode & kBits;
  if (change.is_content_changed) {
    bool is_program_otherwise = ((was ^ is) & kRunBits) != 0;
    return is_program_otherwise ? fmt::format("also its mode: {:o} to {:o}", was, is) : "";
  }
  if (was != is) return fmt::format("only its mode: {:o} to {:o}", was, is);
  bool has_new_owner = change.before->owner != change.after->owner;
  return has_new_owner ? "only its owner" : "only its extended attributes";
}

std::string remarks_text(const Output& out, const Remarks& remarks) {
  std::string text;
  for (const std::string& remark : remarks.list()) text += fmt::format("{}{}", text.empty() ? "" : ", ", remark);
  return text.empty() ? "" : "  " + out.paint(Ink::kYellow, fmt::format("[{}]", text));
}

Result<OverlayAgent> open_to_show(Context& context, const std::string& id) {
  AgentOptions options{.id_or_path = id, .mode = OpenMode::kReadOnly};
  options.caller = {.agent = {}, .space = Space::kKernel, .door = "diff", .session = {}, .trace = trace_of(context)};
  options.may_record = true;
  return open_overlay(options, context.clock);
}

void print_patch_text(Output& out, std::string_view text) {
  if (!out.is_terminal()) return out.write(text);
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    bool is_header = line.starts_with("+++") || line.starts_with("---") || line.starts_with("diff ");
    Ink ink = is_header               ? Ink::kBold
              : line.starts_with('+') ? Ink::kGreen
              : line.starts_with('-') ? Ink::kRed
              : line.starts_with('@') ? Ink::kCyan
                                      : Ink::kPlain;
    out.line(out.paint(ink, printable_text(line)));
  }
}

Result<std::vector<std::string>> paths_of(const Arguments& args, const AgentOverlay& overlay) {
  Result<std::string> here = canonical_host_path(".");
  Result<std::string> home = home_directory();
  if (home.ok()) home = canonical_host_path(*home);
  bool is_home = home.ok() && *home == overlay.base_path;
  if (!here.ok() || is_home) return args.all("PATH");
  return resolve_patterns(args.all("PATH"), overlay.base_path, *here);
}

std::vector<std::string> excluded_of(const Arguments& args) {
  return args.has("exclude") ? args.all("exclude") : std::vector<std::string>();
}

Option exclude_option() {
  return {.name = "exclude",
          .value = "GLOB",
          .help = "leave out what matches; without a '/', in every directory",
          .kind = ValueKind::kNotEmpty,
          .is_list = true};
}

void print_left_out_folders(Output& err, std::size_t count) {
  if (count == 0) return;
  err.print("{} in .agentfs left out: that is where agents are; name the path to include it\n",
            count == 1 ? std::string("1 change") : fmt::format("{} changes", count));
}

std::string listed_names(const std::vector<std::string>& names, std::size_t shown_max) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < shown_max; ++i)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", printable(names[i]));
  if (names.size() > shown_max) text += fmt::format(" and {} more", names.size() - shown_max);
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
