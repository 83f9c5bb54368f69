#include "text/diff/diff.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/limits.h"
#include "text/diff/line_ids.h"
#include "text/diff/myers.h"

namespace warren {
namespace {

// Common ends are first compared in steps of this many bytes, which is many times faster than one by one.
constexpr std::size_t kCompareBytes = 4096;

std::size_t common_head_bytes(std::string_view a, std::string_view b, std::size_t most) {
  std::size_t at = 0;
  while (most - at >= kCompareBytes && std::memcmp(a.data() + at, b.data() + at, kCompareBytes) == 0) {
    at += kCompareBytes;
  }
  while (at < most && a[at] == b[at]) ++at;
  return at;
}

std::size_t common_tail_bytes(std::string_view a, std::string_view b, std::size_t most) {
  const char* a_end = a.data() + a.size();
  const char* b_end = b.data() + b.size();
  std::size_t at = 0;
  while (most - at >= kCompareBytes &&
         std::memcmp(a_end - at - kCompareBytes, b_end - at - kCompareBytes, kCompareBytes) == 0) {
    at += kCompareBytes;
  }
  while (at < most && a_end[-1 - static_cast<std::ptrdiff_t>(at)] == b_end[-1 - static_cast<std::ptrdiff_t>(at)]) ++at;
  return at;
}

// The common bytes at both ends of the texts, cut at line starts.
struct CommonEnds {
  std::size_t head = 0;
  std::size_t tail = 0;
};

bool is_line_start(std::string_view text, std::size_t at, std::size_t head) {
  return at == head || text[at - 1] == '\n';
}

// For two different texts.
CommonEnds common_ends(std::string_view a, std::string_view b) {
  CommonEnds ends;
  std::size_t shorter = std::min(a.size(), b.size());
  std::size_t head = a.substr(0, common_head_bytes(a, b, shorter)).rfind('\n');
  ends.head = head == a.npos ? 0 : head + 1;
  ends.tail = common_tail_bytes(a, b, shorter - ends.head);
  if (!is_line_start(a, a.size() - ends.tail, ends.head) || !is_line_start(b, b.size() - ends.tail, ends.head)) {
    std::size_t end = a.find('\n', a.size() - ends.tail);
    ends.tail = end == a.npos ? 0 : a.size() - end - 1;
  }
  return ends;
}

// The numbers of the lines that both sides have, and their positions.
struct Shared {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> lines;
};

Shared shared_lines(const std::vector<std::uint32_t>& ids) {
  Shared shared;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoMatch) continue;
    shared.ids.push_back(ids[i]);
    shared.lines.push_back(static_cast<std::uint32_t>(i));
  }
  return shared;
}

// A line that only one side has is certainly changed: the search need not see it.
std::vector<bool> changed_lines(std::size_t lines, const Shared& shared, const std::vector<bool>& marks) {
  std::vector<bool> changed(lines, true);
  for (std::size_t i = 0; i < shared.lines.size(); ++i) changed[shared.lines[i]] = marks[i];
  return changed;
}

LineRange take_run(const std::vector<bool>& changed, std::size_t& at) {
  LineRange run{.begin = at};
  while (at < changed.size() && changed[at]) ++at;
  run.count = at - run.begin;
  return run;
}

std::vector<Hunk> hunks_of(const std::vector<bool>& removed, const std::vector<bool>& added) {
  std::vector<Hunk> hunks;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < removed.size() || j < added.size()) {
    Hunk hunk{.before = take_run(removed, i), .after = take_run(added, j)};
    if (hunk.before.count + hunk.after.count > 0) hunks.push_back(hunk);
    while (i < removed.size() && j < added.size() && !removed[i] && !added[j]) ++i, ++j;
  }
  return hunks;
}

bool can_move_down(const LineRange& run, const std::vector<std::uint32_t>& ids) {
  return run.end() < ids.size() && ids[run.begin] != kNoMatch && ids[run.begin] == ids[run.end()];
}

// Lines added or removed between equal ones can be described in several ways; like diff, we take the last: a new block
// then ends with its own closing line. A hunk that reaches the next one is joined with it. Each unchanged line is
// visited at most once.
std::vector<Hunk> moved_down(const std::vector<Hunk>& hunks, const LineIds& ids) {
  std::vector<Hunk> out;
  for (std::size_t i = 0; i < hunks.size(); ++i) {
    Hunk hunk = hunks[i];
    while ((hunk.before.count == 0) != (hunk.after.count == 0)) {
      bool moves =
          hunk.after.count == 0 ? can_move_down(hunk.before, ids.old_ids) : can_move_down(hunk.after, ids.new_ids);
      if (!moves) break;
      ++hunk.before.begin;
      ++hunk.after.begin;
      if (i + 1 == hunks.size() || hunks[i + 1].before.begin != hunk.before.end()) continue;
      ++i;
      hunk.before.count += hunks[i].before.count;
      hunk.after.count += hunks[i].after.count;
    }
    out.push_back(hunk);
  }
  return out;
}

std::vector<Hunk> diff_middle(std::string_view old_text, std::string_view new_text) {
  std::size_t old_lines = count_lines(old_text);
  std::size_t new_lines = count_lines(new_text);
  if (old_lines == 0 || new_lines == 0 || old_lines + new_lines > limits::kDiffLines) {
    return {{.before = {.begin = 0, .count = old_lines}, .after = {.begin = 0, .count = new_lines}}};
  }
  LineIds ids = number_lines(old_text, new_text);
  Shared old_shared = shared_lines(ids.old_ids);
  Shared new_shared = shared_lines(ids.new_ids);
  EditMarks marks =
      find_edits(old_shared.ids, new_shared.ids, {.steps = limits::kDiffSteps, .cost = limits::kDiffCost});
  std::vector<Hunk> hunks =
      hunks_of(changed_lines(old_lines, old_shared, marks.removed), changed_lines(new_lines, new_shared, marks.added));
  return moved_down(hunks, ids);
}

}  // namespace

std::vector<Hunk> diff_lines(std::string_view old_text, std::string_view new_text) {
  if (old_text == new_text) return {};
  CommonEnds ends = common_ends(old_text, new_text);
  auto middle = [&](std::string_view text) { return text.substr(ends.head, text.size() - ends.head - ends.tail); };
  std::vector<Hunk> hunks = diff_middle(middle(old_text), middle(new_text));
  std::size_t head_lines = count_lines(old_text.substr(0, ends.head));
  for (Hunk& hunk : hunks) {
    hunk.before.begin += head_lines;
    hunk.after.begin += head_lines;
  }
  return hunks;
}

LineCounts count_changes(const std::vector<Hunk>& hunks) {
  LineCounts counts;
  for (const Hunk& hunk : hunks) {
    counts.added += hunk.after.count;
    counts.deleted += hunk.before.count;
  }
  return counts;
}

int similarity_percent(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks) {
  if (hunks.empty()) return 100;
  std::uint64_t kept = old_text.size();
  LineCursor cursor(old_text);
  for (const Hunk& hunk : hunks) {
    cursor.take_until(hunk.before.begin);
    kept -= cursor.take_until(hunk.before.end()).size();
  }
  std::uint64_t larger = std::max(old_text.size(), new_text.size());
  return static_cast<int>(std::min<std::uint64_t>(kept * 100 / larger, 99));
}

}  // namespace warren
