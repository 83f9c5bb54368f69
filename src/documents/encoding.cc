#include "documents/encoding.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <iconv.h>

#include "base/ascii.h"
#include "documents/charset_guess.h"
#include "text/mime.h"

namespace warren {
namespace {

using namespace std::string_view_literals;

struct ByteOrderMark {
  std::string_view bytes;
  std::string_view charset;
};
// The longer ones first: UTF-32 in little-endian begins as UTF-16 does.
constexpr std::array<ByteOrderMark, 5> kMarks{{{"\xff\xfe\0\0"sv, "UTF-32LE"},
                                               {"\0\0\xfe\xff"sv, "UTF-32BE"},
                                               {"\xef\xbb\xbf"sv, "UTF-8"},
                                               {"\xff\xfe"sv, "UTF-16LE"},
                                               {"\xfe\xff"sv, "UTF-16BE"}}};

// A name that iconv may get: no options ("//IGNORE"), no paths.
bool is_charset_name(std::string_view name) {
  return !name.empty() && name.size() <= 40 && std::ranges::all_of(name, [](char c) {
    return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

// Names that mean more in practice than in their standards, as browsers take them: programs wrote the larger encodings
// under the names of the smaller. iconv's SHIFT_JIS also has a yen sign where everyone writes a backslash.
struct Alias {
  std::string_view name;  // lower case
  std::string_view charset;
};
constexpr std::array<Alias, 11> kAliases{{{"ascii", "WINDOWS-1252"},
                                          {"us-ascii", "WINDOWS-1252"},
                                          {"iso-8859-1", "WINDOWS-1252"},
                                          {"latin1", "WINDOWS-1252"},
                                          {"iso-8859-9", "WINDOWS-1254"},
                                          {"shift_jis", "CP932"},
                                          {"shift-jis", "CP932"},
                                          {"x-sjis", "CP932"},
                                          {"gb2312", "GB18030"},
                                          {"gbk", "GB18030"},
                                          {"euc-kr", "UHC"}}};

std::string charset_in_use(std::string_view name) {
  std::string lower = to_lower(name);
  auto found = std::ranges::find(kAliases, std::string_view(lower), &Alias::name);
  return std::string(found == kAliases.end() ? name : found->charset);
}

std::size_t count_high_bytes(std::string_view bytes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(bytes, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }));
}

// The value after `name=` in a tag, in quotes or without.
std::string value_in_tag(std::string_view tag, std::string_view name) {
  std::size_t at = tag.find(name);
  if (at == tag.npos) return {};
  std::string_view rest = trimmed(tag.substr(at + name.size()), kWhitespace);
  if (!rest.starts_with('=')) return {};
  rest = trimmed(rest.substr(1), kWhitespace);
  if (rest.starts_with('"') || rest.starts_with('\'')) rest.remove_prefix(1);
  return std::string(rest.substr(0, rest.find_first_of("\"'> ;/?\r\n\t")));
}

class Converter {
 public:
  explicit Converter(const std::string& charset) : state_(::iconv_open("UTF-8", charset.c_str())) {}
  ~Converter() {
    if (is_open()) ::iconv_close(state_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  bool is_open() const { return state_ != reinterpret_cast<iconv_t>(-1); }
  std::optional<std::string> convert(std::string_view bytes) {
    std::string out;
    std::array<char, 65536> block{};
    char* in = const_cast<char*>(bytes.data());  // NOLINT: iconv's signature; it does not write there
    std::size_t in_left = bytes.size();
    while (in_left > 0) {
      char* at = block.data();
      std::size_t left = block.size();
      std::size_t done = ::iconv(state_, &in, &in_left, &at, &left);
      out.append(block.data(), block.size() - left);
      if (done == static_cast<std::size_t>(-1) && errno != E2BIG) return std::nullopt;
    }
    return out;
  }

 private:
  iconv_t state_;
};

}  // namespace

std::optional<std::string> convert_to_utf8(std::string_view bytes, std::string_view charset) {
  if (!is_charset_name(charset)) return std::nullopt;
  Converter converter{charset_in_use(charset)};
  if (!converter.is_open()) return std::nullopt;
  std::optional<std::string> text = converter.convert(bytes);
  if (!text || !is_text(*text)) return std::nullopt;
  return text;
}

bool has_no_control_bytes(std::string_view bytes) {
  return std::ranges::none_of(bytes, [](char c) {
    bool is_layout = c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == '\x1B';
    return (static_cast<unsigned char>(c) < 0x20 && !is_layout) || c == '\x7F';
  });
}

std::string declared_charset(std::string_view bytes) {
  constexpr std::size_t kDeclaredBytes = 4096;
  std::string beginning = to_lower(trimmed(bytes.substr(0, kDeclaredBytes), kWhitespace));
  std::string_view text = beginning;
  if (!text.starts_with('<')) return {};
  std::string found;
  if (text.starts_with("<?xml")) found = value_in_tag(text.substr(0, text.find('>')), "encoding");
  for (std::size_t at = text.find("<meta"); found.empty() && at != text.npos; at = text.find("<meta", at + 1)) {
    std::string_view tag = text.substr(at);
    found = value_in_tag(tag.substr(0, tag.find('>')), "charset");
  }
  // Bytes that say so in ASCII are in neither of these.
  return found.starts_with("utf-16") || found.starts_with("utf-32") ? std::string() : found;
}

namespace {

// Guesses that are taken: of alphabets other than Latin. Among Latin ones the guess is no better than the rule, and
// wrong for short texts in Dutch, for example.
bool is_beyond_latin(std::string_view charset) {
  constexpr std::array<std::string_view, 21> kTaken{
      "KOI8-R",       "KOI8-U",     "WINDOWS-1251", "WINDOWS-1253", "WINDOWS-1255", "WINDOWS-1256", "WINDOWS-874",
      "TIS-620",      "ISO-8859-5", "ISO-8859-6",   "ISO-8859-7",   "ISO-8859-8",   "IBM855",       "IBM866",
      "MAC-CYRILLIC", "CP932",      "EUC-JP",       "GB18030",      "BIG5",         "UHC",          "EUC-TW"};
  return std::ranges::find(kTaken, charset) != kTaken.end();
}

// What nothing declares. A few bytes beyond ASCII are too little to tell alphabets apart.
std::optional<std::string> decode_undeclared(std::string_view bytes) {
  constexpr std::size_t kEnoughHighBytes = 6;
  if (!has_no_control_bytes(bytes)) return std::nullopt;
  std::size_t high = count_high_bytes(bytes);
  std::string guess = high >= kEnoughHighBytes ? charset_in_use(guess_charset(bytes)) : std::string();
  if (is_beyond_latin(guess)) {
    if (std::optional<std::string> text = convert_to_utf8(bytes, guess)) return text;
  }
  bool is_mostly_ascii = high * 10 <= bytes.size() * 3;
  return is_mostly_ascii ? convert_to_utf8(bytes, "WINDOWS-1252") : std::nullopt;
}

}  // namespace

std::optional<std::string> decode_text(std::string_view bytes, std::string_view charset) {
  for (const ByteOrderMark& mark : kMarks) {
    if (bytes.starts_with(mark.bytes)) return convert_to_utf8(bytes.substr(mark.bytes.size()), mark.charset);
  }
  if (is_text(bytes)) return std::string(bytes);
  if (std::optional<std::string> text = convert_to_utf8(bytes, charset)) return text;
  if (std::optional<std::string> text = convert_to_utf8(bytes, declared_charset(bytes))) return text;
  return decode_undeclared(bytes);
}

}  // namespace warren
