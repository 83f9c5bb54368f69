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

// nullopt: the file has no text, and only its name is indexed. What is text, documents/encoding.h decides. Of a PDF,
// and of an HTML page on a drive, it is what the document says. Never fails: any bytes have an answer.
std::optional<ExtractedText> text_of(std::string_view path, Bytes content);

// The kind of content, as text/mime.h tells it: of text in another encoding, by its characters. `content` may be the
// beginning alone.
std::string_view indexed_type_of(std::string_view path, std::string_view content,
                                 const std::optional<ExtractedText>& text);

}  // namespace warren
