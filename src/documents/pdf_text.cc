#include "documents/document_text.h"
#include "documents/encoding.h"
#include "documents/limited_program.h"

namespace warren {

Result<DocumentText> pdf_text(std::string_view bytes) {
  std::string output = WARREN_TRY(
      run_limited({.words = {"pdftotext", "-q", "-enc", "UTF-8", "-eol", "unix", "-", "-"}, .package = "poppler-utils"},
                  bytes)
          .within("the PDF cannot be read"));
  std::optional<std::string> text = decode_text(output);
  if (!text) return Error(Code::kInvalid, "the text of the PDF is not UTF-8");
  return DocumentText{.title = {}, .text = *std::move(text)};
}

}  // namespace warren
