#include "documents/document_text.h"

#include <fmt/format.h>

#include "documents/encoding.h"

namespace warren {

bool is_document(std::string_view mime) {
  return mime == "text/html" || mime == "application/xhtml+xml" || mime == "application/pdf";
}

Result<std::optional<DocumentText>> extract_text(std::string_view mime, std::string_view bytes,
                                                 std::string_view charset) {
  if (!is_document(mime)) return std::optional<DocumentText>();
  if (bytes.size() > kDocumentBytes) {
    return Error(Code::kTooLarge, fmt::format("the document has {} bytes; text is taken out of documents up to {}",
                                              bytes.size(), kDocumentBytes));
  }
  DocumentText text = mime == "application/pdf" ? WARREN_TRY(pdf_text(bytes)) : WARREN_TRY(html_text(bytes, charset));
  return std::optional(std::move(text));
}

}  // namespace warren
