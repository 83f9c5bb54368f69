#include "context/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include "base/path.h"

namespace warren {
namespace {

constexpr std::size_t kPatternBytes = 4096;
constexpr std::int64_t kPatternMemory = std::int64_t{16} << 20;  // of the compiled expression and its states

RE2::Options pattern_options(Letters letters) {
  RE2::Options options;
  options.set_case_sensitive(letters == Letters::kExact);
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  return options;
}

re2::StringPiece piece_of(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct Pattern::Compiled {
  Compiled(std::string_view expression, Letters letters)
      : regex(piece_of(fmt::format("(?m)(?:{})", expression)), pattern_options(letters)) {}
  RE2 regex;
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::~Pattern() = default;

Result<std::unique_ptr<Pattern>> Pattern::compile(std::string_view expression, PatternKind kind, Letters letters) {
  if (expression.size() > kPatternBytes) {
    return Error(Code::kLimit, fmt::format("a pattern has at most {} bytes", kPatternBytes));
  }
  std::string text = kind == PatternKind::kText ? RE2::QuoteMeta(piece_of(expression)) : std::string(expression);
  auto refuse = [&](const RE2& regex) {
    bool is_too_large = regex.error_code() == RE2::ErrorPatternTooLarge;
    return Error(is_too_large ? Code::kLimit : Code::kInvalid,
                 fmt::format("{} is not a valid pattern: {}", quote(expression), regex.error()),
                 "patterns are regular expressions with the syntax of RE2");
  };
  RE2 alone(piece_of(text), pattern_options(letters));  // as given, so that the error is about what was typed
  if (!alone.ok()) return refuse(alone);
  auto compiled = std::make_unique<Compiled>(text, letters);
  if (!compiled->regex.ok()) return refuse(compiled->regex);
  return std::unique_ptr<Pattern>(new Pattern(std::move(compiled)));
}

std::optional<PatternMatch> Pattern::find(std::string_view text, std::size_t from) const {
  re2::StringPiece match;
  if (from > text.size()) return std::nullopt;
  bool found = compiled_->regex.Match(piece_of(text), from, text.size(), RE2::UNANCHORED, &match, 1);
  if (!found) return std::nullopt;
  return PatternMatch{static_cast<std::size_t>(match.data() - text.data()), match.size()};
}

}  // namespace warren
