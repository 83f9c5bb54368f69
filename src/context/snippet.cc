#include "context/snippet.h"

#include <algorithm>
#include <vector>

#include "base/ascii.h"
#include "text/chunker.h"

namespace warren {
namespace {

struct BodyLine {
  std::size_t begin = 0;
  std::string_view text;  // without its line end
};

std::vector<BodyLine> lines_of_body(std::string_view body) {
  std::vector<BodyLine> lines;
  for (std::size_t at = 0; at < body.size();) {
    std::size_t end = std::min(body.find('\n', at), body.size());
    std::string_view line = body.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back({.begin = at, .text = line});
    at = end + 1;
  }
  return lines;
}

// At most kSnippetLineBytes of the line, with what is at the offset in it.
std::string shown_line(std::string_view line, std::size_t at) {
  if (line.size() <= kSnippetLineBytes) return std::string(line);
  std::size_t begin = at > kSnippetLineBytes / 2 ? at - kSnippetLineBytes / 2 : 0;
  begin = std::min(begin, line.size() - kSnippetLineBytes);
  while (begin > 0 && (static_cast<unsigned char>(line[begin]) & 0xC0) == 0x80) --begin;
  std::string_view part = cut_utf8(line.substr(begin), kSnippetLineBytes);
  std::string shown = begin > 0 ? "…" : "";
  shown += part;
  if (begin + part.size() < line.size()) shown += "…";
  return shown;
}

}  // namespace

Snippet snippet_of(std::string_view body, std::size_t line, std::size_t at) {
  std::vector<BodyLine> lines = lines_of_body(body);
  Snippet snippet;
  if (lines.empty()) return snippet;
  line = std::min(line, lines.size() - 1);
  auto is_empty = [&](std::size_t number) { return trimmed(lines[number].text, kWhitespace).empty(); };
  std::size_t first = line > 0 ? line - 1 : 0;
  while (first < line && is_empty(first)) ++first;
  std::size_t end = std::min(first + kSnippetLines, lines.size());
  while (end > line + 1 && is_empty(end - 1)) --end;
  snippet.line = first;
  for (std::size_t number = first; number < end; ++number) {
    const BodyLine& one = lines[number];
    if (number > first) snippet.text += '\n';
    snippet.text += shown_line(one.text, number == line && at > one.begin ? at - one.begin : 0);
  }
  return snippet;
}

}  // namespace warren
