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

Error not_a_pattern(const RE2& regex, std::string_view typed) {
  bool is_too_large = regex.error_code() == RE2::ErrorPatternTooLarge;
  return Error(is_too_large ? Code::kLimit : Code::kInvalid,
               fmt::format("{} is not a valid pattern: {}", quote(typed), regex.error()),
               "patterns are regular expressions with the syntax of RE2");
}

}  // namespace

struct Pattern::Compiled {
  Compiled(std::string_view expression, Letters letters)
      : regex(piece_of(fmt::format("(?m)(?:{})", expression)), pattern_options(letters)) {}
  RE2 regex;
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::~Pattern() = default;

Result<std::unique_ptr<Pattern>> Pattern::compile(std::string_view expression, PatternKind kind, Letters letters) {
  std::string one(expression);
  return compile_any(std::span(&one, 1), {.kind = kind, .letters = letters});
}

Result<std::unique_ptr<Pattern>> Pattern::compile_any(std::span<const std::string> expressions,
                                                      const PatternOptions& options) {
  std::string all;
  for (const std::string& expression : expressions) {
    if (all.size() + expression.size() > kPatternBytes) {
      return Error(Code::kLimit, fmt::format("a pattern has at most {} bytes", kPatternBytes));
    }
    bool is_text = options.kind == PatternKind::kText;
    std::string text = is_text ? RE2::QuoteMeta(piece_of(expression)) : expression;
    RE2 alone(piece_of(text), pattern_options(options.letters));  // as given, so that the error is about what was typed
    if (!alone.ok()) return not_a_pattern(alone, expression);
    all += fmt::format("{}(?:{})", all.empty() ? "" : "|", text);
  }
  if (options.whole == Whole::kWords) all = fmt::format("\\b(?:{})\\b", all);
  auto compiled = std::make_unique<Compiled>(all, options.letters);
  if (!compiled->regex.ok()) return not_a_pattern(compiled->regex, all);
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
