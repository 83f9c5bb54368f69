// Random texts, reproducible by seed, and checks of edit scripts.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/diff/diff.h"

namespace warren::testing {

using Lines = std::vector<std::string>;

Lines lines_of(std::string_view text);
std::string text_of(const Lines& lines);

// Applies the hunks to the old text, taking added lines from the new one. Stops at a hunk that is out of order or out
// of range, so that a wrong script yields a wrong text.
std::string apply_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks);

enum class LineStyle {
  kUnique,  // no two lines equal, so that there is one shortest script
  kFew,     // from a handful, so that there are many shortest scripts
  kBytes,   // any bytes but '\n'
};

class RandomText {
 public:
  RandomText(std::uint64_t seed, LineStyle style) : random_(seed), style_(style) {}

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  bool one_in(std::size_t n) { return below(n) == 0; }

  std::string line();
  Lines lines(std::size_t count);
  // Changes `edits` places: lines added, removed, replaced.
  Lines edited(Lines lines, std::size_t edits);
  // The lines, sometimes without the last '\n'.
  std::string text(Lines lines);

 private:
  std::mt19937_64 random_;  // portable, unlike the standard distributions
  LineStyle style_;
  std::uint64_t made_ = 0;
};

}  // namespace warren::testing
