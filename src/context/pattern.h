// Regular expressions over texts of strangers: time linear in the text, whatever the expression. The only user of RE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

struct PatternMatch {
  std::size_t begin = 0;
  std::size_t size = 0;
};

enum class PatternKind { kExpression, kText };  // kText: found as it is
enum class Letters { kExact, kAnyCase };
enum class Whole { kAnything, kWords };  // kWords: a match begins and ends at the edge of a word

struct PatternOptions {
  PatternKind kind = PatternKind::kExpression;
  Letters letters = Letters::kExact;
  Whole whole = Whole::kAnything;
};

// Thread-safe.
class Pattern {
 public:
  // kInvalid says what is wrong with the expression; kLimit if it is too large. `^` and `$` match at every line, and
  // `.` does not match a line end.
  static Result<std::unique_ptr<Pattern>> compile(std::string_view expression,
                                                  PatternKind kind = PatternKind::kExpression,
                                                  Letters letters = Letters::kExact);
  // Matches what one of them matches.
  static Result<std::unique_ptr<Pattern>> compile_any(std::span<const std::string> expressions,
                                                      const PatternOptions& options = {});
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // The first match at or after `from`. The text is UTF-8; bytes that are not match no character.
  std::optional<PatternMatch> find(std::string_view text, std::size_t from = 0) const;

 private:
  struct Compiled;
  explicit Pattern(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace warren
