#include "text/mime.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/ascii.h"
#include "base/utf8.h"

namespace warren {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  std::string_view mime;
};
constexpr std::array<Signature, 21> kSignatures{{
    {0, "\x89PNG\r\n\x1a\n"sv, "image/png"},
    {0, "\xff\xd8\xff"sv, "image/jpeg"},
    {0, "GIF87a"sv, "image/gif"},
    {0, "GIF89a"sv, "image/gif"},
    {8, "WEBP"sv, "image/webp"},
    {0, "%PDF-"sv, "application/pdf"},
    {0, "PK\x03\x04"sv, "application/zip"},
    {0, "PK\x05\x06"sv, "application/zip"},
    {0, "\x1f\x8b"sv, "application/gzip"},
    {0, "BZh"sv, "application/x-bzip2"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "application/x-xz"},
    {0, "\x28\xb5\x2f\xfd"sv, "application/zstd"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "application/x-7z-compressed"},
    {257, "ustar"sv, "application/x-tar"},
    {0,
     "\x7f"
     "ELF"sv,
     "application/x-executable"},
    {0, "\0asm"sv, "application/wasm"},
    {0, "SQLite format 3\0"sv, "application/vnd.sqlite3"},
    {0, "OggS"sv, "application/ogg"},
    {0, "ID3"sv, "audio/mpeg"},
    {0, "fLaC"sv, "audio/flac"},
    {4, "ftyp"sv, "video/mp4"},
}};

using Ending = std::pair<std::string_view, std::string_view>;
constexpr std::array<Ending, 41> kTextEndings{{
    {"c", "text/x-c"},
    {"cc", "text/x-c++"},
    {"conf", "text/plain"},
    {"cpp", "text/x-c++"},
    {"cs", "text/x-csharp"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"diff", "text/x-diff"},
    {"go", "text/x-go"},
    {"h", "text/x-c"},
    {"hpp", "text/x-c++"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ics", "text/calendar"},
    {"ini", "text/plain"},
    {"java", "text/x-java"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"kt", "text/x-kotlin"},
    {"lua", "text/x-lua"},
    {"markdown", "text/markdown"},
    {"md", "text/markdown"},
    {"mjs", "text/javascript"},
    {"patch", "text/x-diff"},
    {"php", "text/x-php"},
    {"py", "text/x-python"},
    {"rb", "text/x-ruby"},
    {"rs", "text/x-rust"},
    {"rst", "text/x-rst"},
    {"sh", "text/x-shellscript"},
    {"sql", "application/sql"},
    {"svg", "image/svg+xml"},
    {"swift", "text/x-swift"},
    {"tex", "text/x-tex"},
    {"toml", "application/toml"},
    {"ts", "text/x-typescript"},
    {"tsv", "text/tab-separated-values"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
}};

std::string_view mime_by_ending(std::string_view name) {
  std::size_t dot = name.rfind('.');
  if (dot == name.npos) return {};
  std::string ending = to_lower(name.substr(dot + 1));
  auto found = std::ranges::find(kTextEndings, std::string_view(ending), &Ending::first);
  return found == kTextEndings.end() ? std::string_view() : found->second;
}

}  // namespace

bool is_text(std::string_view bytes, Extent extent) {
  if (bytes.find('\0') != bytes.npos) return false;
  if (extent == Extent::kBeginning) {
    // Without the last character, which may be cut: up to three bytes before it is complete.
    std::size_t end = bytes.size();
    while (end > 0 && bytes.size() - end < 3 && (static_cast<unsigned char>(bytes[end - 1]) & 0xC0U) == 0x80U) --end;
    if (end > 0 && (static_cast<unsigned char>(bytes[end - 1]) & 0x80U) != 0) --end;
    bytes = bytes.substr(0, end);
  }
  return is_utf8(bytes);
}

std::string_view mime_type_of(std::string_view name, std::string_view beginning) {
  for (const Signature& one : kSignatures) {
    if (beginning.size() > one.offset && beginning.substr(one.offset).starts_with(one.bytes)) return one.mime;
  }
  if (!is_text(beginning, Extent::kBeginning)) return "application/octet-stream";
  std::string_view by_ending = mime_by_ending(name);
  return by_ending.empty() ? "text/plain" : by_ending;
}

}  // namespace warren
