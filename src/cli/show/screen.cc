#include "cli/show/screen.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/printable.h"
#include "base/utf8.h"

namespace warren::cli {
namespace {

struct CharRange {
  char32_t first;
  char32_t last;
};

// East Asian Width W and F of Unicode, in blocks.
constexpr std::array kWide{CharRange{0x1100, 0x115F},   CharRange{0x231A, 0x231B},   CharRange{0x23E9, 0x23F3},
                           CharRange{0x2614, 0x2615},   CharRange{0x2E80, 0x303E},   CharRange{0x3041, 0xA4CF},
                           CharRange{0xA960, 0xA97C},   CharRange{0xAC00, 0xD7A3},   CharRange{0xF900, 0xFAFF},
                           CharRange{0xFE30, 0xFE6F},   CharRange{0xFF01, 0xFF60},   CharRange{0xFFE0, 0xFFE6},
                           CharRange{0x16FE0, 0x18DFF}, CharRange{0x1B000, 0x1B2FF}, CharRange{0x1F004, 0x1F004},
                           CharRange{0x1F300, 0x1F64F}, CharRange{0x1F680, 0x1F6FF}, CharRange{0x1F7E0, 0x1F7EB},
                           CharRange{0x1F90C, 0x1F9FF}, CharRange{0x1FA70, 0x1FAFF}, CharRange{0x20000, 0x3FFFD}};
constexpr std::array kCombining{CharRange{0x0300, 0x036F}, CharRange{0x0483, 0x0489}, CharRange{0x0591, 0x05BD},
                                CharRange{0x0610, 0x061A}, CharRange{0x064B, 0x065F}, CharRange{0x0E31, 0x0E31},
                                CharRange{0x0E34, 0x0E3A}, CharRange{0x0E47, 0x0E4E}, CharRange{0x1AB0, 0x1AFF},
                                CharRange{0x1DC0, 0x1DFF}, CharRange{0x20D0, 0x20FF}, CharRange{0xFE00, 0xFE0F},
                                CharRange{0xFE20, 0xFE2F}};

template <std::size_t kCount>
bool is_in(char32_t character, const std::array<CharRange, kCount>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const CharRange& range) { return character >= range.first && character <= range.last; });
}

// The well-formed sequence of this length at the start.
char32_t decode(std::string_view bytes, std::size_t length) {
  auto first = static_cast<std::uint8_t>(bytes[0]);
  if (length == 1) return first;
  char32_t value = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) value = (value << 6U) | (static_cast<std::uint8_t>(bytes[i]) & 0x3FU);
  return value;
}

std::size_t width_of(char32_t character) {
  if (character < 0x300) return 1;
  if (is_in(character, kCombining)) return 0;
  return is_in(character, kWide) ? 2 : 1;
}

std::string without_tabs(std::string_view text) {
  constexpr std::size_t kTab = 8;
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
    if (text[0] == '\t') {
      std::size_t spaces = kTab - column % kTab;
      out.append(spaces, ' ');
      column += spaces;
    } else {
      out += text.substr(0, length);
      ++column;
    }
    text.remove_prefix(length);
  }
  return out;
}

KeyKind arrow_of(char final) {
  switch (final) {
    case 'A': return KeyKind::kUp;
    case 'B': return KeyKind::kDown;
    case 'C': return KeyKind::kRight;
    case 'D': return KeyKind::kLeft;
    case 'H': return KeyKind::kHome;
    case 'F': return KeyKind::kEnd;
    default: return KeyKind::kOther;
  }
}

// ESC [ numbers ~
KeyKind numbered_key(std::string_view number) {
  if (number == "5") return KeyKind::kPageUp;
  if (number == "6") return KeyKind::kPageDown;
  if (number == "1" || number == "7") return KeyKind::kHome;
  return number == "4" || number == "8" ? KeyKind::kEnd : KeyKind::kOther;
}

// After ESC [ or ESC O. nullopt if it is not complete.
std::optional<Key> take_sequence(std::string& bytes) {
  constexpr std::size_t kLongest = 32;
  std::size_t end = 2;
  while (end < bytes.size() && end < kLongest && (bytes[end] < '@' || bytes[end] > '~')) ++end;
  if (end == bytes.size() && end < kLongest) return std::nullopt;
  Key key;
  if (end < kLongest) {
    std::string_view numbers = std::string_view(bytes).substr(2, end - 2);
    key.kind = bytes[end] == '~' ? numbered_key(numbers) : arrow_of(bytes[end]);
  }
  bytes.erase(0, std::min(end + 1, bytes.size()));
  return key;
}

Key plain_key(char byte) {
  switch (byte) {
    case '\r':
    case '\n': return {KeyKind::kEnter, '\0'};
    case '\t': return {KeyKind::kTab, '\0'};
    default: return {KeyKind::kText, byte};
  }
}

}  // namespace

void Screen::write(std::string_view text) {
  out_.raw(text);
  out_.finish().ignore("the loop checks for errors");
}

void Screen::show(const std::vector<std::string>& lines) {
  std::string frame = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) frame += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
  write(frame + "\x1b[J");
}

std::optional<Key> take_key(std::string& bytes, KeyBytes which) {
  if (bytes.empty()) return std::nullopt;
  if (bytes[0] != '\x1b') {
    std::size_t length = std::max<std::size_t>(utf8_length(bytes), 1);
    Key key = length == 1 ? plain_key(bytes[0]) : Key{};
    bytes.erase(0, length);
    return key;
  }
  bool is_sequence = bytes.size() > 1 && (bytes[1] == '[' || bytes[1] == 'O');
  if (is_sequence) {
    if (std::optional<Key> key = take_sequence(bytes)) return key;
  }
  if (which == KeyBytes::kMoreMayFollow && (bytes.size() == 1 || is_sequence)) return std::nullopt;
  bytes.erase(0, is_sequence ? bytes.size() : 1);
  return Key{is_sequence ? KeyKind::kOther : KeyKind::kEscape, '\0'};
}

std::size_t display_columns(std::string_view printable_text) {
  std::size_t columns = 0;
  while (!printable_text.empty()) {
    std::size_t length = std::max<std::size_t>(utf8_length(printable_text), 1);
    columns += width_of(decode(printable_text, length));
    printable_text.remove_prefix(length);
  }
  return columns;
}

std::string fit(std::string_view text, std::size_t columns, std::size_t skip) {
  constexpr std::size_t kBytesPerColumn = 16;  // more than any character needs, with some combining ones
  text = text.substr(0, (columns + skip + 1) * kBytesPerColumn);
  std::string safe = printable(without_tabs(text));
  std::string_view rest = safe;
  std::string out;
  std::size_t at = 0;
  while (!rest.empty()) {
    std::size_t length = std::max<std::size_t>(utf8_length(rest), 1);
    std::size_t width = width_of(decode(rest, length));
    if (at + width > columns + skip) break;
    if (at >= skip) out += rest.substr(0, length);
    else if (at + width > skip) out += ' ';  // half of a wide character
    at += width;
    rest.remove_prefix(length);
  }
  std::size_t shown = at > skip ? at - skip : 0;
  return out + std::string(columns - std::min(shown, columns), ' ');
}

}  // namespace warren::cli
