#include "context/extract.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/ascii.h"
#include "base/json.h"
#include "base/path.h"
#include "base/utf8.h"

namespace warren {
namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";
constexpr std::string_view kSemanticItems = "/mem/semantic/";

using NamedMime = std::pair<std::string_view, std::string_view>;
constexpr std::array<NamedMime, 62> kMimeTypes{{
    {".md", "text/markdown"},
    {".markdown", "text/markdown"},
    {".mdx", "text/markdown"},
    {".txt", "text/plain"},
    {".text", "text/plain"},
    {".log", "text/plain"},
    {".rst", "text/x-rst"},
    {".adoc", "text/asciidoc"},
    {".tex", "text/x-tex"},
    {".html", "text/html"},
    {".htm", "text/html"},
    {".css", "text/css"},
    {".csv", "text/csv"},
    {".tsv", "text/tab-separated-values"},
    {".xml", "text/xml"},
    {".svg", "image/svg+xml"},
    {".json", "application/json"},
    {".jsonl", "application/jsonl"},
    {".yaml", "application/yaml"},
    {".yml", "application/yaml"},
    {".toml", "application/toml"},
    {".ini", "text/x-ini"},
    {".diff", "text/x-diff"},
    {".patch", "text/x-diff"},
    {".eml", "message/rfc822"},
    {".c", "text/x-c"},
    {".h", "text/x-c"},
    {".cc", "text/x-c++"},
    {".cpp", "text/x-c++"},
    {".cxx", "text/x-c++"},
    {".hh", "text/x-c++"},
    {".hpp", "text/x-c++"},
    {".py", "text/x-python"},
    {".js", "text/javascript"},
    {".mjs", "text/javascript"},
    {".ts", "text/x-typescript"},
    {".tsx", "text/x-typescript"},
    {".go", "text/x-go"},
    {".rs", "text/x-rust"},
    {".java", "text/x-java"},
    {".kt", "text/x-kotlin"},
    {".swift", "text/x-swift"},
    {".cs", "text/x-csharp"},
    {".rb", "text/x-ruby"},
    {".php", "text/x-php"},
    {".pl", "text/x-perl"},
    {".lua", "text/x-lua"},
    {".sh", "text/x-shellscript"},
    {".sql", "application/sql"},
    {".cmake", "text/x-cmake"},
    {".pdf", "application/pdf"},
    {".png", "image/png"},
    {".jpg", "image/jpeg"},
    {".jpeg", "image/jpeg"},
    {".gif", "image/gif"},
    {".webp", "image/webp"},
    {".zip", "application/zip"},
    {".gz", "application/gzip"},
    {".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {".odt", "application/vnd.oasis.opendocument.text"},
}};

// Windows-1252 from 0x80 to 0x9F; 0 where it has no character. The rest of it is Latin-1.
constexpr std::array<char16_t, 32> kWindows1252{0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                                0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                                0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                                0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

void add_character(std::string& out, char32_t c) {
  auto add = [&](char32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      add(0xE0 | (c >> 12));
    } else {
      add(0xF0 | (c >> 18));
      add(0x80 | ((c >> 12) & 0x3F));
    }
    add(0x80 | ((c >> 6) & 0x3F));
  }
  add(0x80 | (c & 0x3F));
}

enum class ByteOrder { kLittle, kBig };

// Halves of characters without their other half become U+FFFD.
std::string from_utf16(std::string_view bytes, ByteOrder order) {
  auto unit = [&](std::size_t at) {
    auto first = static_cast<unsigned char>(bytes[at]);
    auto second = static_cast<unsigned char>(bytes[at + 1]);
    int value = order == ByteOrder::kLittle ? first | second << 8 : first << 8 | second;
    return static_cast<char32_t>(value);
  };
  std::string out;
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) {
    char32_t c = unit(at);
    bool is_high = c >= 0xD800 && c < 0xDC00;
    if (is_high && at + 3 < bytes.size() && unit(at + 2) >= 0xDC00 && unit(at + 2) < 0xE000) {
      c = 0x10000 + ((c - 0xD800) << 10) + (unit(at + 2) - 0xDC00);
      at += 2;
    } else if (c >= 0xD800 && c < 0xE000) {
      c = 0xFFFD;
    }
    add_character(out, c);
  }
  return out;
}

bool is_text_control(unsigned char c) { return c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == 0x1B; }

// Text in an 8-bit encoding has no control characters but those for layout, and mostly ASCII.
std::optional<std::string> from_8_bit(std::string_view bytes) {
  std::size_t high = 0;
  for (char byte : bytes) {
    auto c = static_cast<unsigned char>(byte);
    if ((c < 0x20 && !is_text_control(c)) || c == 0x7F) return std::nullopt;
    if (c >= 0x80 && c < 0xA0 && kWindows1252[c - 0x80] == 0) return std::nullopt;
    if (c >= 0x80) ++high;
  }
  if (high * 10 > bytes.size() * 3) return std::nullopt;
  std::string out;
  out.reserve(bytes.size() + high);
  for (char byte : bytes) {
    auto c = static_cast<unsigned char>(byte);
    add_character(out, c >= 0x80 && c < 0xA0 ? char32_t{kWindows1252[c - 0x80]} : char32_t{c});
  }
  return out;
}

std::optional<std::string> decoded(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xFE")) return from_utf16(bytes.substr(2), ByteOrder::kLittle);
  if (bytes.starts_with("\xFE\xFF")) return from_utf16(bytes.substr(2), ByteOrder::kBig);
  if (bytes.starts_with(kUtf8Mark)) bytes.remove_prefix(kUtf8Mark.size());
  if (bytes.find('\0') != std::string_view::npos) return std::nullopt;
  if (is_utf8(bytes)) return std::string(bytes);
  return from_8_bit(bytes);
}

// Of an item of semantic memory its text counts, not the numbers of its embedding.
std::optional<std::string> text_of_item(std::string_view json) {
  Result<Json> item = parse_json(json);
  if (!item.ok() || !item->is_object() || !item->contains("embedding") || !item->contains("text")) return std::nullopt;
  const Json& text = item->at("text");
  return text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt;
}

}  // namespace

std::optional<ExtractedText> text_of(std::string_view path, Bytes content) {
  std::optional<std::string> text = decoded(as_text(content));
  if (!text) return std::nullopt;
  if (path.starts_with(kSemanticItems) && path.ends_with(".json")) {
    if (std::optional<std::string> item = text_of_item(*text)) text = std::move(item);
  }
  return ExtractedText{.text = *std::move(text), .shape = shape_of_name(base_name(path))};
}

std::string_view mime_type_of(std::string_view path, bool has_text) {
  std::string name = to_lower(base_name(path));
  std::size_t dot = name.rfind('.');
  if (dot != std::string::npos) {
    std::string_view ending = std::string_view(name).substr(dot);
    auto found = std::ranges::find(kMimeTypes, ending, &NamedMime::first);
    if (found != kMimeTypes.end()) return found->second;
  }
  return has_text ? "text/plain" : "application/octet-stream";
}

}  // namespace warren
