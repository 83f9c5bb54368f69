#include "context/extract.h"

#include "base/json.h"
#include "base/path.h"
#include "documents/document_text.h"
#include "documents/encoding.h"
#include "text/mime.h"

namespace warren {
namespace {

constexpr std::string_view kSemanticItems = "/mem/semantic/";
constexpr std::string_view kDriveItems = "/context/";
constexpr std::size_t kBeginningBytes = 65536;

// Of an item of semantic memory its text counts, not the numbers of its embedding.
std::optional<std::string> text_of_item(std::string_view json) {
  Result<Json> item = parse_json(json);
  if (!item.ok() || !item->is_object() || !item->contains("embedding") || !item->contains("text")) return std::nullopt;
  const Json& text = item->at("text");
  return text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt;
}

// What a document says, as context_read shows it. Pages outside of the drives are source code, and stay as they are.
std::optional<std::string> text_of_document(std::string_view path, std::string_view bytes) {
  std::string_view mime = mime_type_of(base_name(path), bytes.substr(0, kBeginningBytes));
  bool is_wanted = is_document(mime) && (!mime.starts_with("text/") || path.starts_with(kDriveItems));
  if (!is_wanted) return std::nullopt;
  Result<std::optional<DocumentText>> text = extract_text(mime, bytes);
  if (!text.ok() || !*text) return std::nullopt;  // damaged, or what reads it is not installed
  return std::move((*text)->text);
}

}  // namespace

std::optional<ExtractedText> text_of(std::string_view path, Bytes content) {
  if (std::optional<std::string> document = text_of_document(path, as_text(content))) {
    return ExtractedText{.text = *std::move(document), .shape = TextShape::kMarkdown};
  }
  std::optional<std::string> text = decode_text(as_text(content));
  if (!text) return std::nullopt;
  if (path.starts_with(kSemanticItems) && path.ends_with(".json")) {
    if (std::optional<std::string> item = text_of_item(*text)) text = std::move(item);
  }
  return ExtractedText{.text = *std::move(text), .shape = shape_of_name(base_name(path))};
}

std::string_view indexed_type_of(std::string_view path, std::string_view content,
                                 const std::optional<ExtractedText>& text) {
  std::string_view name = base_name(path);
  std::string_view by_bytes = mime_type_of(name, content.substr(0, kBeginningBytes));
  bool is_decoded = text && by_bytes == "application/octet-stream";
  return is_decoded ? mime_type_of(name, std::string_view(text->text).substr(0, kBeginningBytes)) : by_bytes;
}

}  // namespace warren
