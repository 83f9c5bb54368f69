#include "cli/changes/review_dialog.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "changes/conflicts.h"
#include "changes/review/remarks.h"
#include "changes/review/review.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/review_frame.h"
#include "cli/show/screen.h"
#include "os/fd.h"
#include "os/processes/signals.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

constexpr char kControlC = '\x03';
constexpr char kControlL = '\x0c';
constexpr char kControlZ = '\x1a';
constexpr std::chrono::milliseconds kKeyGap{50};  // longer than a terminal takes for one key
constexpr std::size_t kShiftColumns = 8;

// The terminal in raw mode with the alternate screen; both can be given up for a while.
class FullScreen {
 public:
  explicit FullScreen(Context& context) : context_(context) {}

  Status enter() {
    raw_.reset();
    raw_.emplace(WARREN_TRY(RawTerminal::enter(context_.input)));
    if (screen_) screen_->enter();
    else screen_.emplace(context_.out);
    return Ok{};
  }

  void leave() {
    if (screen_) screen_->leave();
    raw_.reset();
  }

  // Until somebody continues the process.
  Status stop() {
    leave();
    ::raise(SIGSTOP);
    return enter();
  }

  void show(const std::vector<std::string>& lines) { screen_->show(lines); }

 private:
  Context& context_;
  std::optional<RawTerminal> raw_;
  std::optional<Screen> screen_;  // left before the mode is restored
};

class ReviewDialog {
 public:
  ReviewDialog(Context& context, const std::string& title, const AgentOverlay& overlay, Review& review)
      : context_(context), overlay_(overlay), review_(review), screen_(context) {
    view_.title = title;
  }

  // Begins with what an earlier review has taken, and at what is another change now.
  void go_on(const Error& refusal, const std::vector<Review::Earlier>& taken) {
    view_.message = fmt::format(" {}", printable(refusal.message()));
    std::optional<std::size_t> row = review_.take_as_before(taken);
    if (!row) return;
    review_.unfold_to(*row);
    std::vector<std::size_t> visible = review_.visible();
    view_.cursor = static_cast<std::size_t>(std::ranges::find(visible, *row) - visible.begin());
  }

  // Whether to apply. The screen is left then; another call returns to it, as it was.
  Result<bool> run() {
    Result<bool> is_confirmed = show_until_end();
    screen_.leave();
    return is_confirmed;
  }

 private:
  enum class End { kNo, kApply, kQuit };

  Result<bool> show_until_end() {
    if (end_ != End::kNo) view_.message = " nothing was applied";
    end_ = End::kNo;
    bytes_.clear();  // typed before the questions
    Signals signals = WARREN_TRY(Signals::take({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT}));
    WARREN_TRY(screen_.enter());
    while (end_ == End::kNo) {
      draw();
      WARREN_TRY(context_.out.status());
      int signal = WARREN_TRY(signals.wait(context_.input, bytes_.empty() ? std::chrono::milliseconds(-1) : kKeyGap));
      if (signal == SIGTSTP) WARREN_TRY(screen_.stop());
      else if (signal == SIGCONT) WARREN_TRY(screen_.enter());
      else if (signal != 0 && signal != SIGWINCH) end_ = End::kQuit;
      else if (signal == 0) WARREN_TRY(read_keys());
    }
    return end_ == End::kApply;
  }

  void draw() {
    layout_ = layout_of(static_cast<std::size_t>(terminal_columns(STDOUT_FILENO)),
                        static_cast<std::size_t>(terminal_rows(STDOUT_FILENO)));
    load_pane();
    keep_in_sight();
    screen_.show(review_frame(context_.out, review_, pane_ ? &*pane_ : nullptr, view_, layout_));
  }

  std::size_t row() const { return visible_[view_.cursor]; }

  // The patch of the selected change is loaded when it is first shown, and only the last one is kept.
  void load_pane() {
    visible_ = review_.visible();
    view_.cursor = std::min(view_.cursor, visible_.size() - 1);
    std::optional<std::size_t> change = review_.rows()[row()].change;
    if (change == shown_) return;
    shown_ = change;
    pane_.reset();
    view_.part = view_.patch_top = view_.shift = 0;
    view_.remarks.clear();
    if (!change) return;
    const TreeChange& selected = *review_.change_of(row());
    Result<Remarks> remarks = remarks_of(overlay_, selected);
    if (remarks.ok() && !remarks->list().empty())
      view_.remarks = fmt::format("  [{}]", fmt::join(remarks->list(), "; "));
    if (selected.node().is_directory() && selected.kind != TreeChangeKind::kModified) return;
    InConflict is_in_conflict = review_.conflict_of(*change) != nullptr ? InConflict::kYes : InConflict::kNo;
    pane_ = ReviewPane::load(overlay_, selected, is_in_conflict);
    if (pane_->parts() != nullptr) review_.set_parts(*change, *pane_->parts());
  }

  void keep_in_sight() {
    if (layout_.is_too_small) return;
    std::size_t rows_below_top = std::min(visible_.size(), layout_.body_rows);
    view_.top = std::min({view_.top, view_.cursor, visible_.size() - rows_below_top});
    if (view_.cursor >= view_.top + layout_.body_rows) view_.top = view_.cursor - layout_.body_rows + 1;
    if (!pane_) view_.is_in_patch = false;
    std::size_t rows = pane_ ? pane_->rows(layout_.pane).size() : 0;
    view_.patch_top = std::min(view_.patch_top, rows == 0 ? 0 : rows - 1);
  }

  // All keys that have arrived. A part of a key waits for the rest, for a moment.
  Status read_keys() {
    pollfd ready{context_.input, POLLIN, 0};
    bool has_more = ::poll(&ready, 1, 0) > 0;
    if (has_more) {
      std::array<char, 256> buffer{};
      std::size_t count = WARREN_TRY(
          read_some(context_.input, MutableBytes(reinterpret_cast<std::byte*>(buffer.data()), buffer.size())));
      if (count == 0) end_ = End::kQuit;
      bytes_.append(buffer.data(), count);
    }
    KeyBytes which = has_more ? KeyBytes::kMoreMayFollow : KeyBytes::kAll;
    while (end_ == End::kNo) {
      std::optional<Key> key = take_key(bytes_, which);
      if (!key) break;
      WARREN_TRY(press(*key));
      draw();  // what the next key is about
    }
    return Ok{};
  }

  Status press(const Key& key) {
    bool is_stop = key.kind == KeyKind::kText && key.letter == kControlZ;
    if (is_stop) return screen_.stop();
    if (is_asking_) {
      answer(key);
      return Ok{};
    }
    view_.message.clear();
    if (std::exchange(view_.shows_help, false)) return Ok{};
    if (layout_.is_too_small && !is_quit(key)) return Ok{};
    if (key.kind == KeyKind::kEnter) return ask();
    return key.kind == KeyKind::kText ? press_letter(key.letter) : move(key.kind);
  }

  static bool is_quit(const Key& key) {
    return key.kind == KeyKind::kText && (key.letter == 'q' || key.letter == kControlC);
  }

  Status press_letter(char letter) {
    switch (letter) {
      case 'q':
      case kControlC: end_ = End::kQuit; break;
      case '?': view_.shows_help = true; break;
      case ' ': take(); break;
      case 'a': review_.take_all(); break;
      case 'n': review_.leave_all(); break;
      case 'm': return merge();
      case 'b': mark(); break;
      case 'j': return move(KeyKind::kDown);
      case 'k': return move(KeyKind::kUp);
      case '<': view_.shift -= std::min(view_.shift, kShiftColumns); break;
      case '>': view_.shift += kShiftColumns; break;
      case kControlL: return screen_.enter();
      default: view_.message = " ? shows the keys";
    }
    return Ok{};
  }

  // Says why, if the change at the cursor cannot be taken.
  bool may_take() {
    std::optional<std::size_t> change = review_.rows()[row()].change;
    if (!change || review_.can_be_taken(*change)) return true;
    view_.message = fmt::format(" it cannot be taken: {}", *review_.conflict_of(*change));
    return false;
  }

  void take() {
    if (view_.is_in_patch && pane_ && pane_->parts() != nullptr) {
      if (!may_take()) return;
      review_.toggle_part(*shown_, view_.part);
      return;
    }
    if (!review_.toggle(row()) && may_take())
      view_.message = " only conflicts are below it, and what needs them: decide about each";
  }

  Status merge() {
    if (!shown_ || review_.conflict_of(*shown_) == nullptr) {
      view_.message = " it is not in conflict with the base";
      return Ok{};
    }
    if (!may_take()) return Ok{};
    if (review_.has_part_in_conflict(*shown_)) {
      view_.message = " it cannot be merged automatically: tab goes to its parts, b writes both";
      return Ok{};
    }
    if (review_.has_parts(*shown_)) {
      review_.take_parts_with(*shown_, PartChoice::kLeft);
      return Ok{};
    }
    std::optional<std::string> merged = WARREN_TRY(merge_change(overlay_, *review_.change_of(row())));
    if (merged) review_.toggle_merged(*shown_);
    else view_.message = " it cannot be merged automatically";
    return Ok{};
  }

  // The selected part, or in the tree the file with all its parts.
  void mark() {
    if (!shown_ || !review_.has_part_in_conflict(*shown_)) {
      view_.message = " the base and the agent have not changed the same lines of it";
    } else if (!may_take()) {
      return;
    } else if (!view_.is_in_patch) {
      review_.take_parts_with(*shown_, PartChoice::kMarked);
    } else if (!review_.toggle_markers(*shown_, view_.part)) {
      view_.message = " only the agent has changed these lines";
    }
  }

  Status ask() {
    Review::Counts counts = review_.count();
    if (counts.taken + counts.partly == 0) {
      view_.message = " nothing is taken: space takes a change, a takes all";
      return Ok{};
    }
    if (std::optional<Review::Missing> missing = review_.find_missing()) {
      std::string conflict = path_in_line(missing->conflict.path);
      std::string change = path_in_line(missing->change.path);
      view_.message =
          missing->can_be_taken
              ? fmt::format(" decide about the conflict {} first, or leave {}: that needs it", conflict, change)
              : fmt::format(" leave {}: it needs {}, which cannot be taken", change, conflict);
      return Ok{};
    }
    view_.message = fmt::format(" Apply {} of {} changes", counts.taken + counts.partly, counts.all);
    if (counts.partly > 0) view_.message += fmt::format(", {} in part", counts.partly);
    if (counts.conflicts > 0) view_.message += fmt::format(", replacing newer work in {} of them", counts.conflicts);
    if (counts.marked > 0) view_.message += fmt::format(", with markers in {}", counts.marked);
    view_.message += "? [y/N]";
    is_asking_ = true;
    return Ok{};
  }

  void answer(const Key& key) {
    is_asking_ = false;
    bool is_yes = key.kind == KeyKind::kText && (key.letter == 'y' || key.letter == 'Y');
    view_.message = is_yes ? "" : " nothing was applied";
    if (is_yes) end_ = End::kApply;
  }

  Status move(KeyKind kind) {
    if (kind == KeyKind::kTab) view_.is_in_patch = !view_.is_in_patch && pane_.has_value();
    else if (view_.is_in_patch) move_in_patch(kind);
    else move_in_tree(kind);
    return Ok{};
  }

  void move_in_tree(KeyKind kind) {
    std::size_t last = visible_.size() - 1;
    std::size_t page = layout_.body_rows - 1;
    const Review::Row& at = review_.rows()[row()];
    switch (kind) {
      case KeyKind::kUp: view_.cursor -= view_.cursor > 0 ? 1 : 0; break;
      case KeyKind::kDown: view_.cursor = std::min(view_.cursor + 1, last); break;
      case KeyKind::kPageUp: view_.cursor -= std::min(view_.cursor, page); break;
      case KeyKind::kPageDown: view_.cursor = std::min(view_.cursor + page, last); break;
      case KeyKind::kHome: view_.cursor = 0; break;
      case KeyKind::kEnd: view_.cursor = last; break;
      case KeyKind::kLeft:
        if (at.below > 0 && !at.is_folded) review_.fold(row());
        break;
      case KeyKind::kRight:
        if (at.is_folded) review_.fold(row());
        else if (pane_) view_.is_in_patch = true;
        break;
      default: break;
    }
  }

  void move_in_patch(KeyKind kind) {
    std::size_t rows = pane_->rows(layout_.pane).size();
    std::size_t page = layout_.body_rows - 2;
    std::size_t parts = pane_->parts() == nullptr ? 0 : pane_->parts()->size();
    switch (kind) {
      case KeyKind::kUp: step_in_patch(parts, -1); break;
      case KeyKind::kDown: step_in_patch(parts, 1); break;
      case KeyKind::kPageUp: view_.patch_top -= std::min(view_.patch_top, page); break;
      case KeyKind::kPageDown: view_.patch_top = std::min(view_.patch_top + page, rows - 1); break;
      case KeyKind::kHome: select_part(0); break;
      case KeyKind::kEnd: select_part(parts == 0 ? 0 : parts - 1); break;
      case KeyKind::kLeft:
      case KeyKind::kEscape: view_.is_in_patch = false; break;
      default: break;
    }
  }

  // By parts, or by lines if there are none.
  void step_in_patch(std::size_t parts, int by) {
    std::size_t at = parts > 0 ? view_.part : view_.patch_top;
    std::size_t end = parts > 0 ? parts : pane_->rows(layout_.pane).size();
    if (by < 0) at -= at > 0 ? 1 : 0;
    else at = std::min(at + 1, end - 1);
    if (parts > 0) select_part(at);
    else view_.patch_top = at;
  }

  // Scrolls so that the part begins on the screen.
  void select_part(std::size_t part) {
    view_.part = part;
    std::size_t begin = pane_->row_of_part(layout_.pane, part);
    std::size_t page = layout_.body_rows - 1;
    if (begin < view_.patch_top || begin + page / 2 >= view_.patch_top + page) view_.patch_top = begin;
  }

  Context& context_;
  const AgentOverlay& overlay_;
  Review& review_;
  FullScreen screen_;
  ReviewView view_;
  FrameLayout layout_;
  std::vector<std::size_t> visible_;
  std::optional<std::size_t> shown_;  // the change of the pane
  std::optional<ReviewPane> pane_;
  std::string bytes_;  // keys that were not handled yet
  bool is_asking_ = false;
  End end_ = End::kNo;
};

}  // namespace

Result<bool> review_changes(Context& context, const std::string& title, const AgentOverlay& overlay,
                            const std::vector<TreeChange>& all, const Selection& offered, const ReviewConsent& agrees,
                            ReviewState& state, Selection& chosen, ApplyOptions& options) {
  std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay, all));
  Review review(all, offered, conflicts);
  if (review.rows().empty()) {
    if (state.refusal) print_error(context, *state.refusal);
    context.err.line("there are no changes to review");
    return false;
  }
  ReviewDialog dialog(context, title, overlay, review);
  ReviewState earlier = std::exchange(state, {});
  if (earlier.refusal) dialog.go_on(*earlier.refusal, earlier.taken);
  for (;;) {
    bool is_confirmed = false;
    {
      SignalMask mask;  // restored after the terminal
      is_confirmed = WARREN_TRY(dialog.run());
    }
    if (!is_confirmed) {
      if (earlier.refusal) print_error(context, *earlier.refusal);
      else context.err.line("nothing was written");
      return false;
    }
    state.taken = review.list_taken();
    Selection taken(all);
    ApplyOptions with = options;
    WARREN_TRY(review.choose(overlay, taken, with));
    if (!WARREN_TRY(agrees(taken))) continue;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (taken.has(i)) chosen.take(i);
    }
    options = std::move(with);
    return true;
  }
}

}  // namespace warren::cli
