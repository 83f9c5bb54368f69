// Texts made at random, always the same for the same seed, and scripts put to the test.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/diff.h"

namespace warren::testing {

using Lines = std::vector<std::string>;

Lines lines_of(std::string_view text);
std::string text_of(const Lines& lines);

// What the hunks make of the old text, with the lines they put in from the new one. Stops at a hunk out of
// order or beyond an end, so that a wrong script gives a wrong text.
std::string apply_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks);

enum class LineStyle {
  kUnique,  // no two lines alike, so that there is one shortest script
  kFew,     // from a handful, so that there are many
  kBytes,   // any bytes but '\n'
};

class RandomText {
 public:
  RandomText(std::uint64_t seed, LineStyle style) : random_(seed), style_(style) {}

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  bool one_in(std::size_t n) { return below(n) == 0; }

  std::string line();
  Lines lines(std::size_t count);
  // `edits` places changed: lines put in, taken out, replaced.
  Lines edited(Lines lines, std::size_t edits);
  // The lines, sometimes without the last '\n'.
  std::string text(Lines lines);

 private:
  std::mt19937_64 random_;  // its numbers are the same on every machine; those of distributions are not
  LineStyle style_;
  std::uint64_t made_ = 0;
};

}  // namespace warren::testing
