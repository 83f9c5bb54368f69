#include "context/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include "base/path.h"

namespace warren {
namespace {

constexpr std::size_t kPatternBytes = 1000;
constexpr std::int64_t kPatternMemory = std::int64_t{16} << 20;  // of the compiled expression and its states

RE2::Options pattern_options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  return options;
}

re2::StringPiece piece_of(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct Pattern::Compiled {
  explicit Compiled(std::string_view expression)
      : regex(piece_of(fmt::format("(?m)(?:{})", expression)), pattern_options()) {}
  RE2 regex;
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::~Pattern() = default;

Result<std::unique_ptr<Pattern>> Pattern::compile(std::string_view expression) {
  if (expression.size() > kPatternBytes) {
    return Error(Code::kInvalid, fmt::format("the pattern has more than {} bytes", kPatternBytes));
  }
  RE2 alone(piece_of(expression), pattern_options());  // as given, so that the error is about what was typed
  if (!alone.ok()) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid pattern: {}", quote(expression), alone.error()),
                 "patterns are regular expressions of RE2: https://github.com/google/re2/wiki/Syntax");
  }
  auto compiled = std::make_unique<Compiled>(expression);
  if (!compiled->regex.ok()) {
    return Error(Code::kInvalid,
                 fmt::format("{} is not a valid pattern: {}", quote(expression), compiled->regex.error()));
  }
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
