#include "cli/changes/apply_dialog.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/path.h"
#include "base/printable.h"
#include "changes/conflicts.h"
#include "changes/needs.h"
#include "changes/review/parts.h"
#include "changes/review/patch.h"
#include "cli/changes/changes_output.h"
#include "os/fd.h"

namespace warren::cli {
namespace {

// The end of the input is no answer: nothing is to be written then.
constexpr std::string_view kEndOfInput = "\4";

Result<std::string> ask(Context& context, std::string_view question) {
  context.err.write(question);
  std::string line;
  char byte = '\0';
  for (;;) {
    std::size_t count = WARREN_TRY(read_some(context.input, MutableBytes(reinterpret_cast<std::byte*>(&byte), 1)));
    if (count == 0) return std::string(kEndOfInput);
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

// kQuit: neither this one nor what follows. kAbort: nothing at all.
enum class Answer { kYes, kNo, kAll, kQuit, kAbort };

struct PartChoices {
  std::vector<PartChoice> list;
  Answer answer = Answer::kYes;  // or kQuit, kAbort
};

std::string part_question(const ChangeParts& parts, std::size_t part) {
  std::string text = fmt::format("  part {} of {}", part + 1, parts.list.size());
  if (parts.list[part].is_in_conflict) {
    return text +
           ", conflict: - is the base's, + the agent's\n  [y]es, the agent's [n]o, the base's [b]oth [a]ll the rest "
           "[d]one [q]uit [?]help ";
  }
  return text + ": [y]es [n]o [a]ll the rest [d]one [q]uit [?]help ";
}

void print_part_help(Context& context, const ChangeParts& parts) {
  context.err.line("  y: write this part; n: leave it; a: write it and the rest of the file");
  context.err.line("  d: leave it and the rest of the file; q: leave it and all that follows");
  if (!parts.is_in_conflict) return;
  context.err.line("  what the base has changed elsewhere in the file stays; a does not take conflicts that follow");
  context.err.line("  b: write both versions of a conflict, between conflict markers");
}

Result<PartChoices> choose_parts(Context& context, const ChangeParts& parts) {
  PartChoices chosen{.list = std::vector<PartChoice>(parts.list.size(), PartChoice::kLeft)};
  bool takes_rest = false;
  for (std::size_t i = 0; i < parts.list.size();) {
    bool is_in_conflict = parts.list[i].is_in_conflict;
    if (takes_rest && !is_in_conflict) {
      chosen.list[i++] = PartChoice::kTaken;
      continue;
    }
    show_text(context, show_part(parts, i));
    std::string answer = WARREN_TRY(ask(context, part_question(parts, i)));
    switch (answer.empty() ? '?' : answer[0]) {
      case 'a': takes_rest = true; [[fallthrough]];
      case 'y': chosen.list[i++] = PartChoice::kTaken; break;
      case 'n': ++i; break;
      case 'd': return chosen;
      case 'q': chosen.answer = Answer::kQuit; return chosen;
      case kEndOfInput[0]: chosen.answer = Answer::kAbort; return chosen;
      case 'b':
        if (is_in_conflict) chosen.list[i++] = PartChoice::kMarked;
        else context.err.line("  only the agent has changed these lines: y or n");
        break;
      default: print_part_help(context, parts);
    }
  }
  return chosen;
}

// One question: a change, or a new or deleted directory with what is in it.
struct Question {
  const TreeChange& change;
  const std::string* conflict;      // why; null if there is none
  std::vector<std::size_t> inside;  // the changes in the directory
};

// What was not taken stays a change of the agent. `is_last`: the user wants no more questions.
Result<Answer> split_file(Context& context, const TreeChange& change, const ChangeParts& parts, ApplyOptions& options,
                          bool& is_last) {
  PartChoices chosen = WARREN_TRY(choose_parts(context, parts));
  if (chosen.answer == Answer::kAbort) return Answer::kAbort;
  is_last = chosen.answer == Answer::kQuit;
  if (std::ranges::count(chosen.list, PartChoice::kLeft) == std::ssize(chosen.list)) return Answer::kNo;
  take_parts(change, parts, chosen.list, options);
  return Answer::kYes;
}

void print_help(Context& context, const Question& question) {
  context.err.line(question.inside.empty() ? "  y: write it; n: leave it; s: decide about each part of it"
                                           : "  y: write it with what is in it; n: leave all of it; s: go into it");
  context.err.line("  p: show it; m: merge it with the base's version, if it is in conflict");
  context.err.line("  a: write this one and all that follow, without conflicts and files that run by themselves");
  context.err.line("  d, q: leave this one and all that follow; what you have taken is written");
  context.err.line("  ^C: write nothing");
}

std::string count_text(const ChangeParts& parts) {
  std::size_t count = parts.list.size();
  std::size_t conflicts = count_in_conflict(parts);
  std::string text = fmt::format("  ({} part{}", count, count == 1 ? "" : "s");
  if (conflicts > 0) text += fmt::format(", {} in conflict", conflicts);
  return text + ")";
}

std::string question_text(Context& context, const Question& question, const Remarks& remarks,
                          const std::optional<ChangeParts>& parts) {
  const TreeChange& change = question.change;
  std::string line = change_line(change) + remarks_text(context.err, remarks);
  std::string metadata = metadata_note(change);
  if (!metadata.empty()) line += fmt::format("  [{}]", metadata);
  if (question.conflict != nullptr) line += fmt::format("  (conflict: {})", *question.conflict);
  if (parts) line += count_text(*parts);
  std::size_t count = question.inside.size();
  if (count > 0) line += fmt::format("  ({} change{} in it)", count, count == 1 ? "" : "s");
  return fmt::format("{}\n  [y]es [n]o {}[p]atch {}[a]ll [d]one [q]uit [?]help ", line,
                     parts || count > 0 ? "[s]plit " : "", question.conflict != nullptr ? "[m]erge " : "");
}

enum class Next { kGoOn, kGoInto, kStop, kAbort };

struct Decision {
  bool is_taken = false;
  bool is_rest_taken = false;
  Next next = Next::kGoOn;
};

Decision decision_of(Answer answer) {
  Decision decision{.is_taken = answer == Answer::kYes || answer == Answer::kAll,
                    .is_rest_taken = answer == Answer::kAll};
  if (answer == Answer::kQuit) decision.next = Next::kStop;
  if (answer == Answer::kAbort) decision.next = Next::kAbort;
  return decision;
}

Status show_all(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                const Question& question) {
  WARREN_TRY(show_patch(context, overlay, question.change));
  for (std::size_t i : question.inside) WARREN_TRY(show_patch(context, overlay, all[i]));
  return Ok{};
}

Result<Decision> ask_about(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                           const Question& question, ApplyOptions& options) {
  const TreeChange& change = question.change;
  Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
  LoadedParts loaded = WARREN_TRY(load_parts(overlay, change));
  const std::optional<ChangeParts>& parts = loaded.parts;
  std::string text = question_text(context, question, remarks, parts);
  for (;;) {
    std::string answer = WARREN_TRY(ask(context, text));
    switch (answer.empty() ? '?' : answer[0]) {
      case 'y': return decision_of(Answer::kYes);
      case 'n': return decision_of(Answer::kNo);
      case 'a': return decision_of(Answer::kAll);
      case 'd':
      case 'q': return decision_of(Answer::kQuit);
      case kEndOfInput[0]: return decision_of(Answer::kAbort);
      case 'p': WARREN_TRY(show_all(context, overlay, all, question)); break;
      case 's': {
        if (!question.inside.empty()) return Decision{.next = Next::kGoInto};
        if (!parts) {
          context.err.print("  it has no parts: {}{}\n", loaded.why_none,
                            question.conflict != nullptr ? "; y writes all of the agent's version" : "");
          break;
        }
        bool is_last = false;
        Decision decision = decision_of(WARREN_TRY(split_file(context, change, *parts, options, is_last)));
        if (is_last) decision.next = Next::kStop;
        return decision;
      }
      case 'm': {
        std::optional<std::string> merged = WARREN_TRY(merge_change(overlay, change));
        if (merged) {
          options.contents.insert_or_assign(change.path, MergedContent{.text = *std::move(merged), .has_unseen = true});
          return decision_of(Answer::kYes);
        }
        context.err.line(parts ? "  it cannot be merged automatically: s asks about each part"
                               : "  it cannot be merged automatically");
        break;
      }
      default: print_help(context, question);
    }
  }
}

// The dialog of one apply.
class Dialog {
 public:
  Dialog(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all, Selection& chosen,
         ApplyOptions& options)
      : context_(context),
        overlay_(overlay),
        all_(all),
        chosen_(chosen),
        options_(options),
        needs_(all),
        is_decided_(all.size(), false),
        is_taken_(all.size(), false) {}

  Result<bool> run(const Selection& offered) {
    std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay_, all_));
    for (const ApplyConflict& conflict : conflicts) {
      why_.emplace(conflict.path, &conflict.why);
      if (!conflict.can_be_forced()) never_taken_.insert(conflict.path);
    }
    WARREN_TRY(list_asked(offered));
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (is_decided_[i]) continue;
      Decision decision = WARREN_TRY(decide(i));
      if (decision.next == Next::kStop) leave_rest();
      bool has_taken = std::ranges::find(is_taken_, true) != is_taken_.end();
      bool is_nothing = decision.next == Next::kAbort || (decision.next == Next::kStop && !has_taken);
      if (!is_nothing) continue;
      context_.err.line("nothing was written");
      return false;
    }
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (is_taken_[i]) chosen_.take(i);
    }
    return true;
  }

 private:
  const std::string* find_conflict(std::size_t i) const {
    auto conflict = why_.find(all_[i].path);
    return conflict == why_.end() ? nullptr : conflict->second;
  }

  // What has a remark or is in conflict is asked about by itself.
  Result<bool> is_plain(std::size_t i) const {
    if (find_conflict(i) != nullptr) return false;
    Remarks remarks = WARREN_TRY(remarks_of(overlay_, all_[i]));
    return remarks.list().empty();
  }

  Result<std::vector<std::size_t>> list_inside(std::size_t at) const {
    std::vector<std::size_t> inside;
    const TreeChange& dir = all_[at];
    bool is_whole =
        dir.node().is_directory() && (dir.kind == TreeChangeKind::kAdded || dir.kind == TreeChangeKind::kDeleted);
    if (!is_whole || find_conflict(at) != nullptr) return inside;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      bool is_in = i != at && all_[i].kind == dir.kind && is_at_or_below(all_[i].path, dir.path);
      if (!is_in || is_decided_[i]) continue;
      bool is_plain_one = WARREN_TRY(is_plain(i));
      // To delete the directory is to delete all of it.
      if (!is_plain_one && dir.kind == TreeChangeKind::kDeleted) return std::vector<std::size_t>();
      if (is_plain_one) inside.push_back(i);
    }
    return inside;
  }

  // Changes that the chosen ones need are written with them; those with a conflict or a remark are asked about, too.
  Status list_asked(const Selection& offered) {
    Selection wanted = offered;
    for (std::size_t i = 0; i < all_.size(); ++i) is_decided_[i] = !wanted.has(i);
    wanted.complete_for_apply();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (is_decided_[i] && wanted.has(i)) is_decided_[i] = WARREN_TRY(is_plain(i));
    }
    return Ok{};
  }

  std::vector<std::size_t> list_same_kind_in(std::size_t at) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      bool is_in = i != at && all_[i].kind == all_[at].kind && is_at_or_below(all_[i].path, all_[at].path);
      if (is_in) found.push_back(i);
    }
    return found;
  }

  void take(std::size_t i) {
    is_decided_[i] = true;
    is_taken_[i] = true;
  }

  // Leaves also what cannot be written without these, whether it was taken before or not asked about yet.
  void leave(const std::vector<std::size_t>& left) {
    for (std::size_t i : left) is_decided_[i] = true;
    std::vector<std::size_t> not_asked;
    std::size_t because = 0;
    for (const Needs::Dependent& dependent : needs_.dependents_of(left)) {
      std::size_t i = dependent.change;
      if (is_taken_[i]) {
        print_left(change_line(all_[i]), dependent.because);
        options_.contents.erase(all_[i].path);
      } else if (!is_decided_[i]) {
        not_asked.push_back(i);
        because = dependent.because;
      }
      is_decided_[i] = true;
      is_taken_[i] = false;
    }
    if (not_asked.size() == 1) print_left(change_line(all_[not_asked[0]]), because);
    if (not_asked.size() > 1) print_left(fmt::format("{} more changes", not_asked.size()), because);
  }

  void print_left(std::string_view what, std::size_t because) {
    context_.err.print("  left: {}: not possible without {}\n", what, change_line(all_[because]));
  }

  void leave_rest() {
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!is_decided_[i]) rest.push_back(i);
    }
    leave(rest);
  }

  Result<Decision> decide(std::size_t i) {
    if (never_taken_.contains(all_[i].path)) {
      context_.err.print("  left: {}: {}\n", context_.err.name(change_line(all_[i])), *find_conflict(i));
      leave({i});
      return Decision{};
    }
    if (takes_rest_) {
      Remarks remarks = WARREN_TRY(remarks_of(overlay_, all_[i]));
      if (remarks.runs.empty()) {
        if (find_conflict(i) == nullptr) take(i);
        else leave({i});
        return Decision{};
      }
    }
    Question question { .change = all_[i], .conflict = find_conflict(i), .inside = WARREN_TRY(list_inside(i)) };
    Decision decision = WARREN_TRY(ask_about(context_, overlay_, all_, question, options_));
    takes_rest_ = takes_rest_ || decision.is_rest_taken;
    is_decided_[i] = true;
    if (decision.next == Next::kGoInto || decision.next == Next::kAbort) return decision;
    if (decision.is_taken) {
      take(i);
      for (std::size_t inside : question.inside) take(inside);
      return decision;
    }
    std::vector<std::size_t> left;
    if (!question.inside.empty()) left = list_same_kind_in(i);
    left.insert(left.begin(), i);
    leave(left);
    return decision;
  }

  Context& context_;
  const AgentOverlay& overlay_;
  const std::vector<TreeChange>& all_;
  Selection& chosen_;
  ApplyOptions& options_;
  std::unordered_map<std::string_view, const std::string*> why_;  // conflicts
  std::unordered_set<std::string_view> never_taken_;              // of these, what no option of apply writes
  Needs needs_;
  std::vector<bool> is_decided_;  // or not to be asked about
  std::vector<bool> is_taken_;
  bool takes_rest_ = false;
};

}  // namespace

Result<bool> choose_changes(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                            const Selection& offered, Selection& chosen, ApplyOptions& options) {
  return Dialog(context, overlay, all, chosen, options).run(offered);
}

}  // namespace warren::cli
