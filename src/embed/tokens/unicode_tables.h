// What the tokenizer needs of Unicode. Tables in ascending order; characters that are not in one are not affected.
#pragma once

#include <cstdint>
#include <span>

namespace warren {

struct CodeRange {
  char32_t first;
  char32_t last;
};

// The characters first, first + step, … last become lower case by adding `distance`.
struct LowerRun {
  char32_t first;
  char32_t last;
  char32_t step;
  std::int32_t distance;
};

// What is left of a character without its non-spacing marks: é → e.
struct BaseOf {
  char32_t code;
  char32_t base;
};
struct BasesOf {
  char32_t code;
  char32_t bases[3];  // ends with 0
};

extern const std::span<const CodeRange> kMarkTable;         // category Mn
extern const std::span<const CodeRange> kPunctuationTable;  // P*
extern const std::span<const CodeRange> kControlTable;      // Cc, Cf, Co
extern const std::span<const LowerRun> kLowerTable;
extern const std::span<const BaseOf> kBaseTable;  // Hangul is missing: it is computed
extern const std::span<const BasesOf> kBasesTable;

}  // namespace warren
