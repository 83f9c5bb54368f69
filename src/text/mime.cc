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
constexpr std::array<Signature, 22> kSignatures{{
    {0, "\x89PNG\r\n\x1a\n"sv, "image/png"},
    {0, "\xff\xd8\xff"sv, "image/jpeg"},
    {0, "GIF87a"sv, "image/gif"},
    {0, "GIF89a"sv, "image/gif"},
    {8, "WEBP"sv, "image/webp"},
    {8, "WAVE"sv, "audio/wav"},
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
constexpr std::array<Ending, 51> kTextEndings{{
    {"adoc", "text/asciidoc"},    {"c", "text/x-c"},
    {"cc", "text/x-c++"},         {"cmake", "text/x-cmake"},
    {"conf", "text/plain"},       {"cpp", "text/x-c++"},
    {"cs", "text/x-csharp"},      {"css", "text/css"},
    {"csv", "text/csv"},          {"cxx", "text/x-c++"},
    {"diff", "text/x-diff"},      {"eml", "message/rfc822"},
    {"go", "text/x-go"},          {"h", "text/x-c"},
    {"hh", "text/x-c++"},         {"hpp", "text/x-c++"},
    {"htm", "text/html"},         {"html", "text/html"},
    {"ics", "text/calendar"},     {"ini", "text/plain"},
    {"java", "text/x-java"},      {"js", "text/javascript"},
    {"json", "application/json"}, {"jsonl", "application/jsonl"},
    {"kt", "text/x-kotlin"},      {"log", "text/plain"},
    {"lua", "text/x-lua"},        {"markdown", "text/markdown"},
    {"md", "text/markdown"},      {"mdx", "text/markdown"},
    {"mjs", "text/javascript"},   {"patch", "text/x-diff"},
    {"php", "text/x-php"},        {"pl", "text/x-perl"},
    {"py", "text/x-python"},      {"rb", "text/x-ruby"},
    {"rs", "text/x-rust"},        {"rst", "text/x-rst"},
    {"sh", "text/x-shellscript"}, {"sql", "application/sql"},
    {"svg", "image/svg+xml"},     {"swift", "text/x-swift"},
    {"tex", "text/x-tex"},        {"toml", "application/toml"},
    {"ts", "text/x-typescript"},  {"tsv", "text/tab-separated-values"},
    {"tsx", "text/x-typescript"}, {"txt", "text/plain"},
    {"xml", "application/xml"},   {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
}};

// ZIP archives that are documents.
constexpr std::array<Ending, 6> kArchiveEndings{{
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
}};

// Used only without the first bytes, which show these kinds.
constexpr std::array<Ending, 17> kBinaryEndings{{
    {"7z", "application/x-7z-compressed"},
    {"bz2", "application/x-bzip2"},
    {"flac", "audio/flac"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"ogg", "application/ogg"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"tar", "application/x-tar"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webp", "image/webp"},
    {"zip", "application/zip"},
}};

template <std::size_t N>
std::string_view mime_by_ending(std::string_view name, const std::array<Ending, N>& endings) {
  std::size_t dot = name.rfind('.');
  if (dot == name.npos) return {};
  std::string ending = to_lower(name.substr(dot + 1));
  auto found = std::ranges::find(endings, std::string_view(ending), &Ending::first);
  return found == endings.end() ? std::string_view() : found->second;
}

bool begins_as_page(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::size_t start = text.find_first_not_of(kWhitespace);
  if (start == text.npos) return false;
  std::string beginning = to_lower(text.substr(start, 15));
  return beginning.starts_with("<!doctype html") || beginning.starts_with("<html");
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
    if (beginning.size() <= one.offset || !beginning.substr(one.offset).starts_with(one.bytes)) continue;
    std::string_view document =
        one.mime == "application/zip" ? mime_by_ending(name, kArchiveEndings) : std::string_view();
    return document.empty() ? one.mime : document;
  }
  if (!is_text(beginning, Extent::kBeginning)) return "application/octet-stream";
  std::string_view by_ending = mime_by_ending(name, kTextEndings);
  if (!by_ending.empty()) return by_ending;
  return begins_as_page(beginning) ? "text/html" : "text/plain";
}

std::string_view mime_type_by_name(std::string_view name) {
  std::string_view type = mime_by_ending(name, kTextEndings);
  if (type.empty()) type = mime_by_ending(name, kArchiveEndings);
  return type.empty() ? mime_by_ending(name, kBinaryEndings) : type;
}

}  // namespace warren
