#include "text/diff/myers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"

namespace warren {
namespace {

using Ids = std::span<const std::uint32_t>;

struct Point {
  std::ptrdiff_t x = 0;  // into the old sequence
  std::ptrdiff_t y = 0;  // into the new one
};

struct Box {
  Point low;
  Point high;
};

// How far `edits` edits reach on each diagonal (x - y) of a box, from one of its corners. The far corner's front sees
// the box reversed: its coordinates count from there.
class Front {
 public:
  explicit Front(int cost) : middle_(cost + 1), reach_(static_cast<std::size_t>(2 * cost + 3)) {}

  void start() { at(0) = 0; }
  // Prepares for one more edit: the diagonals just outside are not reached yet.
  void widen(int edits) { at(edits + 1) = at(-edits - 1) = -1; }
  std::ptrdiff_t& at(std::ptrdiff_t diagonal) { return reach_[static_cast<std::size_t>(middle_ + diagonal)]; }

  // The point that one more edit reaches on this diagonal, before any equal elements; -1 if outside the box.
  std::ptrdiff_t step(std::ptrdiff_t diagonal, Point size) {
    std::ptrdiff_t left = at(diagonal - 1);
    std::ptrdiff_t above = at(diagonal + 1);
    std::ptrdiff_t removed = left >= 0 && left < size.x ? left + 1 : -1;
    std::ptrdiff_t added = above >= 0 && above - (diagonal + 1) < size.y ? above : -1;
    return std::max(removed, added);
  }

  // The point furthest along after `edits` edits.
  Point furthest(int edits) {
    Point best{.x = -1, .y = 0};
    for (std::ptrdiff_t k = -edits; k <= edits; k += 2) {
      std::ptrdiff_t x = at(k);
      if (x >= 0 && 2 * x - k > best.x + best.y) best = {.x = x, .y = x - k};
    }
    return best;
  }

 private:
  std::ptrdiff_t middle_;
  std::vector<std::ptrdiff_t> reach_;
};

enum class Direction { kForward, kBackward };

class EditFinder {
 public:
  EditFinder(Ids old_ids, Ids new_ids, EditEffort effort)
      : old_(old_ids),
        new_(new_ids),
        effort_(effort),
        forward_(effort.cost),
        backward_(effort.cost),
        marks_{.removed = std::vector<bool>(old_ids.size()), .added = std::vector<bool>(new_ids.size())} {}

  EditMarks run() {
    // An explicit stack: boxes can nest as deep as there are edits.
    std::vector<Box> todo = {
        {.low = {}, .high = {.x = std::ssize(old_), .y = std::ssize(new_)}},
    };
    while (!todo.empty()) {
      Box box = trimmed(todo.back());
      todo.pop_back();
      std::optional<Point> cut;
      if (box.low.x < box.high.x && box.low.y < box.high.y) cut = find_cut(box);
      if (!cut) {
        mark(box);
        continue;
      }
      todo.push_back({.low = *cut, .high = box.high});
      todo.push_back({.low = box.low, .high = *cut});
    }
    return std::move(marks_);
  }

 private:
  bool equal(std::ptrdiff_t x, std::ptrdiff_t y) const {
    return old_[static_cast<std::size_t>(x)] == new_[static_cast<std::size_t>(y)];
  }

  Box trimmed(Box box) const {
    while (box.low.x < box.high.x && box.low.y < box.high.y && equal(box.low.x, box.low.y)) ++box.low.x, ++box.low.y;
    while (box.low.x < box.high.x && box.low.y < box.high.y && equal(box.high.x - 1, box.high.y - 1)) {
      --box.high.x;
      --box.high.y;
    }
    return box;
  }

  void mark(const Box& box) {
    for (std::ptrdiff_t x = box.low.x; x < box.high.x; ++x) marks_.removed[static_cast<std::size_t>(x)] = true;
    for (std::ptrdiff_t y = box.low.y; y < box.high.y; ++y) marks_.added[static_cast<std::size_t>(y)] = true;
  }

  // A point inside the box, not one of its corners, that a short script passes through; none once the steps are used
  // up. The box is trimmed and has elements on both sides: it takes at least two edits, so half of them does not end at
  // a corner.
  std::optional<Point> find_cut(const Box& box) {
    Point size{.x = box.high.x - box.low.x, .y = box.high.y - box.low.y};
    bool odd = (size.x - size.y) % 2 != 0;
    forward_.start();
    backward_.start();
    for (int edits = 1; edits <= effort_.cost; ++edits) {
      if (auto met = advance<Direction::kForward>(box, size, edits, odd ? edits - 1 : -1)) return met;
      if (auto met = advance<Direction::kBackward>(box, size, edits, odd ? -1 : edits)) return met;
      if (steps_ > effort_.steps) return std::nullopt;
    }
    Point ahead = forward_.furthest(effort_.cost);
    Point behind = backward_.furthest(effort_.cost);
    WARREN_CHECK(std::max(ahead.x + ahead.y, behind.x + behind.y) > 0);  // they would have met before
    if (ahead.x + ahead.y >= behind.x + behind.y) return place<Direction::kForward>(box, ahead);
    return place<Direction::kBackward>(box, behind);
  }

  template <Direction Way>
  static Point place(const Box& box, Point point) {
    if (Way == Direction::kForward) return {.x = box.low.x + point.x, .y = box.low.y + point.y};
    return {.x = box.high.x - point.x, .y = box.high.y - point.y};
  }

  // Advances one front by one edit. If it meets the other one, which has made `other_edits` edits (-1: by parity they
  // cannot meet in this move), that is the point.
  template <Direction Way>
  std::optional<Point> advance(const Box& box, Point size, int edits, int other_edits) {
    Front& front = Way == Direction::kForward ? forward_ : backward_;
    Front& other = Way == Direction::kForward ? backward_ : forward_;
    front.widen(edits);
    steps_ += static_cast<std::uint64_t>(edits);
    for (std::ptrdiff_t k = -edits; k <= edits && steps_ <= effort_.steps; k += 2) {
      std::ptrdiff_t x = front.step(k, size);
      if (x >= 0) x = slide<Way>(box, size, {.x = x, .y = x - k});
      front.at(k) = x;
      std::ptrdiff_t across = size.x - size.y - k;
      if (x < 0 || across < -other_edits || across > other_edits) continue;
      std::ptrdiff_t reached = other.at(across);
      if (reached >= 0 && x + reached >= size.x) return place<Way>(box, {.x = x, .y = x - k});
    }
    return std::nullopt;
  }

  // Follows equal elements and returns where they end.
  template <Direction Way>
  std::ptrdiff_t slide(const Box& box, Point size, Point at) {
    std::ptrdiff_t start = at.x;
    if (Way == Direction::kForward) {
      while (at.x < size.x && at.y < size.y && equal(box.low.x + at.x, box.low.y + at.y)) ++at.x, ++at.y;
    } else {
      while (at.x < size.x && at.y < size.y && equal(box.high.x - 1 - at.x, box.high.y - 1 - at.y)) ++at.x, ++at.y;
    }
    steps_ += static_cast<std::uint64_t>(at.x - start);
    return at.x;
  }

  Ids old_;
  Ids new_;
  EditEffort effort_;
  Front forward_;
  Front backward_;
  EditMarks marks_;
  std::uint64_t steps_ = 0;
};

}  // namespace

EditMarks find_edits(Ids old_ids, Ids new_ids, EditEffort effort) {
  WARREN_CHECK(effort.cost > 0);
  return EditFinder(old_ids, new_ids, effort).run();
}

}  // namespace warren
