// The text of a file, for the search index: what is indexed of each kind of file is decided here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "text/chunker.h"

namespace warren {

// Larger files are listed in the index's status, and are found by their names alone.
inline constexpr std::uint64_t kIndexedFileBytes = std::uint64_t{64} << 20;

struct ExtractedText {
  std::string text;  // UTF-8; its lines are those that are shown with a result
  TextShape shape = TextShape::kPlain;
};

// nullopt: the file has no text, and only its name is indexed. UTF-8, UTF-16 with a byte order mark, and text in
// Latin-1 or Windows-1252 are read. Never fails: any bytes have an answer.
std::optional<ExtractedText> text_of(std::string_view path, Bytes content);

// By the name's ending and, without a known one, by whether the file has text: "text/plain" or
// "application/octet-stream".
std::string_view mime_type_of(std::string_view path, bool has_text);

}  // namespace warren
