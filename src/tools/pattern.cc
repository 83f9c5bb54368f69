#include "tools/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include "base/path.h"

namespace warren {
namespace {

constexpr std::size_t kPatternBytes = 4096;
constexpr std::int64_t kPatternMemory = std::int64_t{8} << 20;

}  // namespace

struct LinePattern::Compiled {
  Compiled(const re2::StringPiece& pattern, const RE2::Options& options) : expression(pattern, options) {}
  RE2 expression;
};

Result<LinePattern> LinePattern::compile(std::string_view pattern, PatternKind kind, Letters letters) {
  if (pattern.size() > kPatternBytes) {
    return Error(Code::kLimit, fmt::format("a pattern has at most {} bytes", kPatternBytes));
  }
  RE2::Options options;
  options.set_literal(kind == PatternKind::kText);
  options.set_case_sensitive(letters == Letters::kExact);
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  auto compiled = std::make_shared<const Compiled>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (compiled->expression.ok()) return LinePattern(std::move(compiled));
  bool is_too_large = compiled->expression.error_code() == RE2::ErrorPatternTooLarge;
  return Error(is_too_large ? Code::kLimit : Code::kInvalid,
               fmt::format("{} is not a valid regular expression: {}", quote(pattern), compiled->expression.error()),
               "Without \"regex\" the pattern is looked for as it is.");
}

bool LinePattern::matches(std::string_view line) const {
  return RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), compiled_->expression);
}

}  // namespace warren
