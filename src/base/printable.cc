#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "base/utf8.h"

namespace warren {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Beyond ASCII, sorted.
constexpr std::array kHidden{
    Range{0x0080, 0x009F},    // C1 controls: U+009B begins a terminal's control sequence
    Range{0x00AD, 0x00AD},    // soft hyphen
    Range{0x034F, 0x034F},    // combining grapheme joiner
    Range{0x061C, 0x061C},    // Arabic letter mark
    Range{0x115F, 0x1160},    // Hangul fillers
    Range{0x17B4, 0x17B5},    // Khmer inherent vowels
    Range{0x180B, 0x180F},    // Mongolian separators
    Range{0x200B, 0x200F},    // zero-width characters, left-to-right and right-to-left marks
    Range{0x2028, 0x202E},    // line and paragraph separators, bidirectional embeddings and overrides
    Range{0x2060, 0x206F},    // invisible operators, bidirectional isolates, deprecated format characters
    Range{0x3164, 0x3164},    // Hangul filler
    Range{0xFDD0, 0xFDEF},    // noncharacters
    Range{0xFEFF, 0xFEFF},    // zero-width no-break space
    Range{0xFFA0, 0xFFA0},    // halfwidth Hangul filler
    Range{0xFFF0, 0xFFFB},    // interlinear annotations, and unassigned characters that are ignored
    Range{0xFFFE, 0xFFFF},    // noncharacters
    Range{0x1BCA0, 0x1BCA3},  // shorthand format controls
    Range{0x1D173, 0x1D17A},  // musical format controls
    Range{0xE0000, 0xE0FFF},  // tags: invisible copies of ASCII
};

bool is_hidden(char32_t character) {
  auto found = std::find_if(kHidden.begin(), kHidden.end(), [&](Range each) { return character <= each.last; });
  return found != kHidden.end() && character >= found->first;
}

// Of a well-formed sequence.
char32_t decoded(std::string_view sequence) {
  auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<std::uint8_t>(sequence[i])); };
  if (sequence.size() == 1) return byte(0);
  char32_t out = byte(0) & (0x7FU >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) out = (out << 6U) | (byte(i) & 0x3FU);
  return out;
}

bool is_plain(char c) { return c >= 0x20 && c < 0x7F; }

// Copies what may be shown; `escape` is called with each character or byte that may not.
template <class Escape>
std::string shown(std::string_view bytes, std::string_view kept, Escape escape) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    std::size_t plain =
        static_cast<std::size_t>(std::find_if_not(bytes.begin(), bytes.end(), is_plain) - bytes.begin());
    out += bytes.substr(0, plain);
    bytes.remove_prefix(plain);
    if (bytes.empty()) break;
    std::size_t length = utf8_length(bytes);
    std::string_view sequence = bytes.substr(0, length == 0 ? 1 : length);
    bool is_shown = length > 1 ? !is_hidden(decoded(sequence)) : kept.find(sequence[0]) != kept.npos;
    if (is_shown) out += sequence;
    else escape(out, sequence, length > 1);
    bytes.remove_prefix(sequence.size());
  }
  return out;
}

void escape_for_people(std::string& out, std::string_view sequence, bool is_character) {
  if (!is_character) {
    out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(sequence[0]));
    return;
  }
  auto character = static_cast<std::uint32_t>(decoded(sequence));
  out += character <= 0xFFFF ? fmt::format("\\u{:04x}", character) : fmt::format("\\U{:08x}", character);
}

void escape_for_json(std::string& out, std::string_view sequence, bool is_character) {
  std::uint32_t character =
      is_character ? static_cast<std::uint32_t>(decoded(sequence)) : static_cast<std::uint8_t>(sequence[0]);
  if (character <= 0xFFFF) {
    out += fmt::format("\\u{:04x}", character);
    return;
  }
  character -= 0x10000;
  out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800U + (character >> 10U), 0xDC00U + (character & 0x3FFU));
}

}  // namespace

std::string printable(std::string_view bytes) { return shown(bytes, "", escape_for_people); }

std::string printable_text(std::string_view bytes) { return shown(bytes, "\n\t", escape_for_people); }

std::string printable_json(std::string_view json) { return shown(json, "\n", escape_for_json); }

}  // namespace warren
