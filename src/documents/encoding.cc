#include "documents/encoding.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <iconv.h>

#include "base/ascii.h"
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

// Text in an old 8-bit encoding has no control characters but those for layout and colours, and is mostly ASCII: what
// is not is in an alphabet that windows-1252 does not have.
bool looks_like_8_bit(std::string_view bytes) {
  std::size_t high = 0;
  for (char c : bytes) {
    auto byte = static_cast<unsigned char>(c);
    bool is_layout = c == '\n' || c == '\r' || c == '\t' || c == '\f' || byte == 0x1B;
    if ((byte < 0x20 && !is_layout) || byte == 0x7F) return false;
    if (byte >= 0x80) ++high;
  }
  return high * 10 <= bytes.size() * 3;
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
  Converter converter{std::string(charset)};
  if (!converter.is_open()) return std::nullopt;
  std::optional<std::string> text = converter.convert(bytes);
  if (!text || !is_text(*text)) return std::nullopt;
  return text;
}

std::optional<std::string> decode_text(std::string_view bytes, std::string_view charset) {
  for (const ByteOrderMark& mark : kMarks) {
    if (bytes.starts_with(mark.bytes)) return convert_to_utf8(bytes.substr(mark.bytes.size()), mark.charset);
  }
  if (is_text(bytes)) return std::string(bytes);
  if (std::optional<std::string> text = convert_to_utf8(bytes, charset)) return text;
  if (!looks_like_8_bit(bytes)) return std::nullopt;
  return convert_to_utf8(bytes, "WINDOWS-1252");
}

}  // namespace warren
