#include "text/chunker.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/ascii.h"

namespace warren {
namespace {

struct SourceLine {
  std::size_t begin = 0;
  std::size_t end = 0;  // after its line end
};

// Lines that belong together, with the blank lines after them.
struct TextUnit {
  std::size_t first = 0;  // lines, from 0
  std::size_t end = 0;
  int heading_level = 0;      // of Markdown; 0: not a heading
  bool begins_block = false;  // of code
  std::string_view label;     // the heading's text, or the first line of a block
};

constexpr std::array<std::string_view, 3> kMarkdownEndings{".md", ".markdown", ".mdx"};
constexpr std::array<std::string_view, 47> kCodeEndings{
    ".c",    ".cc",  ".cpp", ".cxx", ".h",  ".hh",   ".hpp",  ".hxx", ".py",    ".pyi",   ".js",   ".mjs",
    ".cjs",  ".jsx", ".ts",  ".tsx", ".go", ".rs",   ".java", ".kt",  ".kts",   ".swift", ".cs",   ".rb",
    ".php",  ".pl",  ".pm",  ".lua", ".sh", ".bash", ".zsh",  ".sql", ".scala", ".m",     ".mm",   ".zig",
    ".dart", ".ex",  ".exs", ".erl", ".hs", ".ml",   ".r",    ".jl",  ".clj",   ".el",    ".cmake"};

bool is_blank(std::string_view line) { return trimmed(line, kWhitespace).empty(); }

std::size_t indentation(std::string_view line) {
  std::size_t at = line.find_first_not_of(kBlanks);
  return at == std::string_view::npos ? line.size() : at;
}

// The number of '#' of an ATX heading; 0 if it is none.
int atx_level(std::string_view line) {
  std::size_t start = indentation(line);
  if (start > 3) return 0;
  std::string_view rest = line.substr(start);
  std::size_t level = std::min(rest.find_first_not_of('#'), rest.size());
  if (level == 0 || level > 6) return 0;
  if (level < rest.size() && kWhitespace.find(rest[level]) == std::string_view::npos) return 0;
  return static_cast<int>(level);
}

std::string_view heading_text(std::string_view line) {
  return trimmed(trimmed(trimmed(line, kWhitespace), "#"), kWhitespace);
}

// The underline of a heading: 1 for "===", 2 for "---"; 0 if it is none.
int underline_level(std::string_view line) {
  std::string_view text = trimmed(line, kWhitespace);
  if (text.size() < 3 || indentation(line) > 3) return 0;
  if (text.find_first_not_of('=') == std::string_view::npos) return 1;
  return text.find_first_not_of('-') == std::string_view::npos ? 2 : 0;
}

// The fence that opens a block of code, "```" or longer; empty if the line opens none.
std::string_view fence_of(std::string_view line) {
  std::size_t start = indentation(line);
  std::string_view rest = line.substr(start);
  if (rest.empty() || (rest[0] != '`' && rest[0] != '~')) return {};
  std::size_t length = std::min(rest.find_first_not_of(rest[0]), rest.size());
  return length < 3 ? std::string_view() : rest.substr(0, length);
}

bool closes_fence(std::string_view line, std::string_view fence) {
  std::string_view found = fence_of(line);
  return found.size() >= fence.size() && found[0] == fence[0] && trimmed(line, kWhitespace).size() == found.size();
}

class UnitReader {
 public:
  UnitReader(std::string_view text, TextShape shape) : text_(text), shape_(shape) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = text.find('\n', at);
      end = end == std::string_view::npos ? text.size() : end + 1;
      lines_.push_back({at, end});
      at = end;
    }
  }

  const std::vector<SourceLine>& lines() const { return lines_; }

  std::vector<TextUnit> read() {
    std::vector<TextUnit> units;
    for (std::size_t at = 0; at < lines_.size();) {
      TextUnit unit = shape_ == TextShape::kCode ? code_block(at) : paragraph(at);
      while (unit.end < lines_.size() && is_blank(line(unit.end))) ++unit.end;
      at = unit.end;
      units.push_back(unit);
    }
    return units;
  }

 private:
  std::string_view line(std::size_t number) const {
    return text_.substr(lines_[number].begin, lines_[number].end - lines_[number].begin);
  }

  TextUnit paragraph(std::size_t at) const {
    if (shape_ == TextShape::kMarkdown) {
      if (std::optional<TextUnit> special = markdown_unit(at)) return *special;
    }
    TextUnit unit{.first = at, .end = at + 1, .label = {}};
    while (unit.end < lines_.size() && !is_blank(line(unit.end)) && !begins_markdown_unit(unit.end)) ++unit.end;
    return unit;
  }

  bool begins_markdown_unit(std::size_t at) const {
    if (shape_ != TextShape::kMarkdown) return false;
    return atx_level(line(at)) > 0 || !fence_of(line(at)).empty();
  }

  std::optional<TextUnit> markdown_unit(std::size_t at) const {
    TextUnit unit{.first = at, .end = at + 1, .label = {}};
    if (int level = atx_level(line(at)); level > 0) {
      unit.heading_level = level;
      unit.label = heading_text(line(at));
      return unit;
    }
    if (std::string_view fence = fence_of(line(at)); !fence.empty()) {
      while (unit.end < lines_.size() && !closes_fence(line(unit.end), fence)) ++unit.end;
      unit.end = std::min(unit.end + 1, lines_.size());
      return unit;
    }
    if (at == 0 && trimmed(line(0), kWhitespace) == "---") return front_matter();
    bool is_underlined = at + 1 < lines_.size() && !is_blank(line(at)) && underline_level(line(at + 1)) > 0;
    if (!is_underlined) return std::nullopt;
    unit.end = at + 2;
    unit.heading_level = underline_level(line(at + 1));
    unit.label = heading_text(line(at));
    return unit;
  }

  std::optional<TextUnit> front_matter() const {
    constexpr std::size_t kFrontMatterLines = 200;
    for (std::size_t end = 1; end < std::min(lines_.size(), kFrontMatterLines); ++end) {
      if (trimmed(line(end), kWhitespace) == "---") return TextUnit{.first = 0, .end = end + 1, .label = {}};
    }
    return std::nullopt;
  }

  // Up to the next line without indentation that follows a blank line or the end of a block.
  TextUnit code_block(std::size_t at) const {
    TextUnit unit{.first = at, .end = at + 1, .begins_block = true, .label = trimmed(line(at), kWhitespace)};
    for (; unit.end < lines_.size(); ++unit.end) {
      std::string_view next = line(unit.end);
      std::string_view before = line(unit.end - 1);
      bool is_top = !is_blank(next) && indentation(next) == 0 && next[0] != '}' && next[0] != ')';
      if (is_top && (is_blank(before) || before[0] == '}')) break;
    }
    return unit;
  }

  std::string_view text_;
  TextShape shape_;
  std::vector<SourceLine> lines_;
};

class ChunkPacker {
 public:
  ChunkPacker(std::string_view text, TextShape shape) : text_(text), shape_(shape), reader_(text, shape) {}

  std::vector<TextChunk> pack() {
    for (const TextUnit& unit : reader_.read()) {
      bool begins_section = unit.heading_level > 0 || unit.begins_block;
      bool is_full = size_to(unit.end) > kChunkTextBytes;
      bool ends_here = begins_section && size_to(unit.first) >= kChunkSectionBytes;
      if (!only_headings_ && (is_full || ends_here)) flush(unit.first);
      enter(unit);
      only_headings_ = only_headings_ && unit.heading_level > 0;
      if (size_to(unit.end) > kChunkTextBytes) split(unit);
    }
    flush(reader_.lines().size());
    return std::move(chunks_);
  }

 private:
  std::size_t begin_of(std::size_t line) const {
    return line < reader_.lines().size() ? reader_.lines()[line].begin : text_.size();
  }
  std::size_t size_to(std::size_t line) const { return begin_of(line) - begin_of(first_); }

  // The headings above what follows. A chunk has those at its start.
  void enter(const TextUnit& unit) {
    if (unit.heading_level > 0) {
      std::erase_if(headings_, [&](const TextUnit& one) { return one.heading_level >= unit.heading_level; });
      headings_.push_back(unit);
    } else if (unit.begins_block) {
      headings_.assign(1, unit);
    }
    if (unit.first == first_ || only_headings_) heading_ = joined_headings(unit);
  }

  std::string joined_headings(const TextUnit& unit) const {
    if (shape_ == TextShape::kCode && unit.first == first_) return {};  // its first line says it
    std::string joined;
    for (const TextUnit& one : headings_) {
      if (one.label.empty()) continue;
      if (!joined.empty()) joined += " > ";
      joined += cut_utf8(one.label, kChunkHeadingBytes);
    }
    return std::string(cut_utf8(joined, kChunkHeadingBytes));
  }

  void flush(std::size_t line) {
    if (line > first_) add(first_, line);
    first_ = line;
    only_headings_ = true;
    heading_ = shape_ == TextShape::kCode ? std::string() : joined_headings({.first = line, .label = {}});
  }

  void add(std::size_t first, std::size_t end) {
    std::string_view body = text_.substr(begin_of(first), begin_of(end) - begin_of(first));
    if (is_blank(body)) return;
    if (end - first == 1 && body.size() > kChunkTextBytes) return add_long_line(first, body);
    while (is_blank(line(first))) ++first;
    std::size_t last = end;
    while (is_blank(line(last - 1))) --last;
    body = text_.substr(begin_of(first), begin_of(end) - begin_of(first));
    chunks_.push_back({.body = body, .first_line = first + 1, .last_line = last, .heading = heading_});
  }

  void add_long_line(std::size_t number, std::string_view line) {
    while (!line.empty()) {
      std::string_view piece = cut_utf8(line, kChunkTextBytes);
      if (piece.size() < line.size()) {
        std::size_t space = piece.find_last_of(kBlanks);
        if (space != std::string_view::npos && space >= kChunkTextBytes / 2) piece = piece.substr(0, space + 1);
      }
      if (!is_blank(piece)) {
        chunks_.push_back({.body = piece, .first_line = number + 1, .last_line = number + 1, .heading = heading_});
      }
      line.remove_prefix(piece.size());
    }
  }

  std::string_view line(std::size_t number) const {
    return text_.substr(begin_of(number), begin_of(number + 1) - begin_of(number));
  }

  // Ends chunks within a unit that is too long; its last piece stays open.
  void split(const TextUnit& unit) {
    while (size_to(unit.end) > kChunkTextBytes) {
      std::size_t end = first_ + 1;
      while (end < unit.end && size_to(end + 1) <= kChunkTextBytes) ++end;
      add(first_, best_end(end));
      first_ = best_end(end);
      heading_ = joined_headings({.first = first_ + 1, .label = {}});
    }
    only_headings_ = first_ == unit.end;
  }

  // A blank line, or the line with the least indentation, in the second half of the lines up to `end`.
  std::size_t best_end(std::size_t end) const {
    std::size_t best = end;
    std::size_t least = std::string_view::npos;
    for (std::size_t at = end; at > first_ + 1 && size_to(at) > kChunkTextBytes / 2; --at) {
      if (is_blank(line(at - 1))) return at;
      std::size_t depth = at < reader_.lines().size() ? indentation(line(at)) : 0;
      if (depth < least) {
        least = depth;
        best = at;
      }
    }
    return best;
  }

  std::string_view text_;
  TextShape shape_;
  UnitReader reader_;
  std::vector<TextChunk> chunks_;
  std::vector<TextUnit> headings_;
  std::size_t first_ = 0;      // line at which the open chunk begins
  std::string heading_;        // of the open chunk
  bool only_headings_ = true;  // the open chunk has nothing else yet
};

}  // namespace

TextShape shape_of_name(std::string_view name) {
  std::string lower = to_lower(name);
  auto ends_so = [&](std::string_view ending) { return lower.ends_with(ending); };
  if (std::ranges::any_of(kMarkdownEndings, ends_so)) return TextShape::kMarkdown;
  return std::ranges::any_of(kCodeEndings, ends_so) ? TextShape::kCode : TextShape::kPlain;
}

std::vector<TextChunk> chunk_text(std::string_view text, TextShape shape) { return ChunkPacker(text, shape).pack(); }

std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  auto is_inner = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  // A character has at most four bytes; more inner ones in a row are not UTF-8.
  for (int back = 0; back < 3 && end > 1 && is_inner(end); ++back) --end;
  return text.substr(0, is_inner(end) ? bytes_max : end);
}

}  // namespace warren
