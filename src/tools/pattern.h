// A regular expression (RE2's syntax) or a fixed text, looked for in lines. Linear in the text, whatever the
// expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

enum class PatternKind { kText, kExpression };
enum class Letters { kExact, kAnyCase };

// A value; safe to use from several threads.
class LinePattern {
 public:
  // kInvalid says what is wrong with the expression; kLimit if it would need too much memory.
  static Result<LinePattern> compile(std::string_view pattern, PatternKind kind, Letters letters);

  bool matches(std::string_view line) const;

 private:
  struct Compiled;
  explicit LinePattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;  // shared by copies of this value
};

}  // namespace warren
