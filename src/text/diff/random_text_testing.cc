#include "text/diff/random_text_testing.h"

#include <algorithm>

#include <fmt/format.h>

namespace warren::testing {

Lines lines_of(std::string_view text) {
  Lines lines;
  LineCursor cursor(text);
  for (std::string_view line = cursor.take_until(1); !line.empty(); line = cursor.take_until(cursor.line() + 1)) {
    lines.emplace_back(line);
  }
  return lines;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

std::string apply_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks) {
  Lines before = lines_of(old_text);
  Lines after = lines_of(new_text);
  std::string out;
  std::size_t at = 0;
  std::size_t made = 0;
  for (const Hunk& hunk : hunks) {
    if (hunk.before.begin < at || hunk.before.end() > before.size() || hunk.after.end() > after.size()) break;
    for (; at < hunk.before.begin; ++at, ++made) out += before[at];
    if (made != hunk.after.begin) break;
    for (; made < hunk.after.end(); ++made) out += after[made];
    at = hunk.before.end();
  }
  for (; at < before.size(); ++at) out += before[at];
  return out;
}

std::string RandomText::line() {
  switch (style_) {
    case LineStyle::kUnique: return fmt::format("line {} {}\n", ++made_, below(1000));
    case LineStyle::kFew: return fmt::format("{}\n", static_cast<char>('a' + below(4)));
    case LineStyle::kBytes: break;
  }
  std::string out(below(12), '\0');
  for (char& c : out) c = static_cast<char>(below(256));
  std::replace(out.begin(), out.end(), '\n', '\r');
  return out + (one_in(2) ? "\r\n" : "\n");
}

Lines RandomText::lines(std::size_t count) {
  Lines out(count);
  for (std::string& each : out) each = line();
  return out;
}

Lines RandomText::edited(Lines lines, std::size_t edits) {
  for (std::size_t i = 0; i < edits; ++i) {
    auto at = static_cast<std::ptrdiff_t>(below(lines.size() + 1));
    auto gone = static_cast<std::ptrdiff_t>(std::min(below(4), lines.size() - static_cast<std::size_t>(at)));
    lines.erase(lines.begin() + at, lines.begin() + at + gone);
    Lines put = this->lines(below(4));
    lines.insert(lines.begin() + at, put.begin(), put.end());
  }
  return lines;
}

std::string RandomText::text(Lines lines) {
  if (!lines.empty() && one_in(4)) {
    lines.back().pop_back();
    if (lines.back().empty()) lines.pop_back();
  }
  return text_of(lines);
}

}  // namespace warren::testing
