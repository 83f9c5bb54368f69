// ASCII text, independent of the locale, for formats and protocols.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace warren {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_lower_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
constexpr bool is_hex_digit(char c) { return is_lower_hex_digit(c) || (c >= 'A' && c <= 'F'); }

constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }
std::string to_lower(std::string_view text);

inline constexpr std::string_view kBlanks = " \t";
inline constexpr std::string_view kWhitespace = " \t\r\n";

// `text` without the characters of `dropped` at either end.
std::string_view trimmed(std::string_view text, std::string_view dropped = kBlanks);

// The whole text as a decimal number; nullopt if it is anything else or does not fit.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace warren
