#include "text/diff/merge3.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "text/diff/diff.h"

namespace warren {
namespace {

// One side's hunks, consumed from the front.
class Side {
 public:
  explicit Side(const std::vector<Hunk>& hunks) : next_(hunks.begin()), end_(hunks.end()) {}

  bool is_done() const { return next_ == end_; }
  std::size_t next_begin() const { return next_->before.begin; }
  bool touches(std::size_t line) const { return !is_done() && next_begin() <= line; }
  // Takes the next hunk and returns the line of the ancestor after it.
  std::size_t take() {
    added_ += next_->after.count;
    deleted_ += next_->before.count;
    return (next_++)->before.end();
  }
  // The position on this side of an unchanged line of the ancestor, after the hunks taken so far.
  std::size_t line_here(std::size_t ancestor_line) const { return ancestor_line + added_ - deleted_; }

 private:
  std::vector<Hunk>::const_iterator next_;
  std::vector<Hunk>::const_iterator end_;
  std::size_t added_ = 0;
  std::size_t deleted_ = 0;
};

LineRange between(std::size_t begin, std::size_t end) { return {.begin = begin, .count = end - begin}; }

// Hunks of the two sides that overlap or touch, directly or through others, form one change.
MergePart take_part(Side& ours, Side& theirs) {
  bool ours_first = theirs.is_done() || (!ours.is_done() && ours.next_begin() <= theirs.next_begin());
  std::size_t begin = (ours_first ? ours : theirs).next_begin();
  std::size_t ours_begin = ours.line_here(begin);
  std::size_t theirs_begin = theirs.line_here(begin);
  std::size_t end = (ours_first ? ours : theirs).take();
  MergePart change{.side = ours_first ? MergeSide::kOurs : MergeSide::kTheirs};
  while (ours.touches(end) || theirs.touches(end)) {
    bool is_ours = ours.touches(end);
    end = std::max(end, (is_ours ? ours : theirs).take());
    if (change.side != (is_ours ? MergeSide::kOurs : MergeSide::kTheirs)) change.side = MergeSide::kBoth;
  }
  change.ancestor = between(begin, end);
  change.ours = between(ours_begin, ours.line_here(end));
  change.theirs = between(theirs_begin, theirs.line_here(end));
  return change;
}

std::vector<MergePart> find_changes(std::string_view ancestor, std::string_view ours, std::string_view theirs) {
  std::vector<Hunk> our_hunks = diff_lines(ancestor, ours);
  std::vector<Hunk> their_hunks = diff_lines(ancestor, theirs);
  Side our_side(our_hunks);
  Side their_side(their_hunks);
  std::vector<MergePart> changes;
  while (!our_side.is_done() || !their_side.is_done()) changes.push_back(take_part(our_side, their_side));
  return changes;
}

// Narrows each change of both sides to the lines in which they differ; a change with none was made identically by both
// and is dropped.
std::vector<MergePart> narrowed(const std::vector<MergePart>& changes, std::string_view ours, std::string_view theirs) {
  std::vector<MergePart> out;
  LineCursor our_cursor(ours);
  LineCursor their_cursor(theirs);
  for (const MergePart& change : changes) {
    if (change.side != MergeSide::kBoth) {
      out.push_back(change);
      continue;
    }
    our_cursor.take_until(change.ours.begin);
    their_cursor.take_until(change.theirs.begin);
    std::string_view our_lines = our_cursor.take_until(change.ours.end());
    std::string_view their_lines = their_cursor.take_until(change.theirs.end());
    for (const Hunk& hunk : diff_lines(our_lines, their_lines)) {
      MergePart one = change;
      one.ours = {.begin = change.ours.begin + hunk.before.begin, .count = hunk.before.count};
      one.theirs = {.begin = change.theirs.begin + hunk.after.begin, .count = hunk.after.count};
      out.push_back(one);
    }
  }
  return out;
}

bool has_letter_or_digit(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return is_digit(c) || is_letter(c); });
}

constexpr std::size_t kJoinLines = 3;

// Conflicts separated only by a few lines, or by lines without a word, are easier to resolve as one.
std::vector<MergePart> joined(const std::vector<MergePart>& changes, std::string_view ours) {
  std::vector<MergePart> out;
  LineCursor cursor(ours);
  for (const MergePart& change : changes) {
    bool conflicts = change.side == MergeSide::kBoth;
    cursor.take_until(out.empty() ? 0 : out.back().ours.end());
    std::string_view gap = cursor.take_until(change.ours.begin);
    bool follows = conflicts && !out.empty() && out.back().side == MergeSide::kBoth;
    if (!follows || (change.ours.begin - out.back().ours.end() > kJoinLines && has_letter_or_digit(gap))) {
      out.push_back(change);
      continue;
    }
    MergePart& last = out.back();
    last.ancestor = between(last.ancestor.begin, change.ancestor.end());
    last.ours = between(last.ours.begin, change.ours.end());
    last.theirs = between(last.theirs.begin, change.theirs.end());
  }
  return out;
}

// The line ending of the line before `rest`; for the first line, of that line itself. Empty if there is no such line or
// it has no ending.
std::optional<bool> ends_with_crlf(std::string_view text, const char* rest) {
  auto at = static_cast<std::size_t>(rest - text.data());
  if (at == 0) at = std::min(text.find('\n'), text.size() - 1) + 1;
  if (at == 0 || text[at - 1] != '\n') return std::nullopt;
  return at >= 2 && text[at - 2] == '\r';
}

class Renderer {
 public:
  Renderer(std::string_view ancestor, std::string_view ours, std::string_view theirs, MergeLabels labels)
      : ancestor_(ancestor), ours_(ours), theirs_(theirs), labels_(labels), our_cursor_(ours), their_cursor_(theirs) {}

  void add(const MergePart& change) {
    out_ += our_cursor_.take_until(change.ours.begin);
    their_cursor_.take_until(change.theirs.begin);
    std::string_view our_lines = our_cursor_.take_until(change.ours.end());
    std::string_view their_lines = their_cursor_.take_until(change.theirs.end());
    if (change.side == MergeSide::kOurs) out_ += our_lines;
    if (change.side == MergeSide::kTheirs) out_ += their_lines;
    if (change.side == MergeSide::kBoth) add_conflict(our_lines, their_lines);
  }

  std::string finish() {
    out_ += our_cursor_.take_until(SIZE_MAX);
    return std::move(out_);
  }

 private:
  void add_conflict(std::string_view our_lines, std::string_view their_lines) {
    std::string_view end = line_end(our_lines.data(), their_lines.data());
    out_.append("<<<<<<< ").append(labels_.ours).append(end);
    add_ended(our_lines, end);
    out_.append("=======").append(end);
    add_ended(their_lines, end);
    out_.append(">>>>>>> ").append(labels_.theirs).append(end);
  }

  // Markers end like the lines around them: with CRLF only if none of those ends in a plain LF.
  std::string_view line_end(const char* our_rest, const char* their_rest) const {
    auto ours = ends_with_crlf(ours_, our_rest);
    auto theirs = ends_with_crlf(theirs_, their_rest);
    auto ancestor = ends_with_crlf(ancestor_, ancestor_.data());
    bool any = ours.value_or(false) || theirs.value_or(false) || ancestor.value_or(false);
    bool all = ours.value_or(true) && theirs.value_or(true) && ancestor.value_or(true);
    return any && all ? "\r\n" : "\n";
  }

  // A marker is on its own line, even after a last line without an ending.
  void add_ended(std::string_view lines, std::string_view end) {
    out_ += lines;
    if (!lines.empty() && lines.back() != '\n') out_ += end;
  }

  std::string_view ancestor_;
  std::string_view ours_;
  std::string_view theirs_;
  MergeLabels labels_;
  LineCursor our_cursor_;
  LineCursor their_cursor_;
  std::string out_;
};

}  // namespace

std::vector<MergePart> merge_parts(std::string_view ancestor, std::string_view ours, std::string_view theirs) {
  return joined(narrowed(find_changes(ancestor, ours, theirs), ours, theirs), ours);
}

std::string write_merge(std::string_view ancestor, std::string_view ours, std::string_view theirs,
                        const std::vector<MergePart>& parts, MergeLabels labels) {
  Renderer renderer(ancestor, ours, theirs, labels);
  for (const MergePart& part : parts) renderer.add(part);
  return renderer.finish();
}

std::string with_shared_changes(std::string_view ancestor, std::string_view ours, const std::vector<MergePart>& parts) {
  std::string out;
  LineCursor old_cursor(ancestor);
  LineCursor our_cursor(ours);
  for (const MergePart& part : parts) {
    if (part.side == MergeSide::kTheirs) continue;
    out += our_cursor.take_until(part.ours.begin);
    our_cursor.take_until(part.ours.end());
    old_cursor.take_until(part.ancestor.begin);
    out += old_cursor.take_until(part.ancestor.end());  // nothing if an earlier part has had these lines
  }
  out += our_cursor.take_until(SIZE_MAX);
  return out;
}

Merged merge3(std::string_view ancestor, std::string_view ours, std::string_view theirs, MergeLabels labels) {
  std::vector<MergePart> parts = merge_parts(ancestor, ours, theirs);
  Merged merged;
  for (const MergePart& part : parts) {
    if (part.side != MergeSide::kBoth) continue;
    merged.conflicts.push_back({.ancestor = part.ancestor, .ours = part.ours, .theirs = part.theirs});
  }
  merged.text = write_merge(ancestor, ours, theirs, parts, labels);
  return merged;
}

}  // namespace warren
