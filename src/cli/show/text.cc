#include "cli/show/text.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/utf8.h"

namespace warren::cli {
namespace {

bool is_continuation(char c) { return (static_cast<std::uint8_t>(c) & 0xC0U) == 0x80U; }

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

void set_bytes(Json& object, std::string_view key, std::string_view bytes) {
  object[std::string(key)] = std::string(bytes);
  if (!is_utf8(bytes)) object[std::string(key) + "_hex"] = to_hex(bytes);
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) out += fmt::format("{:02x}", static_cast<std::uint8_t>(c));
  return out;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string pad_right(std::string text, std::size_t columns) {
  std::size_t has = columns_of(text);
  if (has < columns) text.append(columns - has, ' ');
  return text;
}

std::string pad_left(std::string text, std::size_t columns) {
  std::size_t has = columns_of(text);
  return has < columns ? std::string(columns - has, ' ') + text : text;
}

std::string shorten(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  std::size_t end = 0;
  for (std::size_t kept = 0; end < text.size(); ++end) {
    if (is_continuation(text[end])) continue;
    if (kept == columns - 3) break;
    ++kept;
  }
  return std::string(text.substr(0, end)) + "...";
}

std::string wrap(std::string_view text, std::size_t columns, std::size_t indent, std::size_t begun) {
  std::string out;
  std::size_t used = begun;
  bool is_line_start = true;
  while (!text.empty()) {
    std::size_t end = text.find_first_of(" \n");
    std::string_view word = text.substr(0, end);
    std::size_t width = columns_of(word);
    if (!is_line_start && !word.empty() && used + 1 + width > columns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
      is_line_start = true;
    }
    if (!is_line_start) out += ' ';
    out += word;
    used += width + (is_line_start ? 0 : 1);
    is_line_start = false;
    if (end == text.npos) break;
    if (text[end] == '\n') {
      out += "\n" + std::string(indent, ' ');
      used = indent;
      is_line_start = true;
    }
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace warren::cli
