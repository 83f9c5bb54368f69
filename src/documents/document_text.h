// The text of documents that are not plain text: HTML, PDF, and those of office programs.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

struct DocumentText {
  std::string title;  // may be empty
  std::string text;   // UTF-8
};

inline constexpr std::size_t kDocumentBytes = std::size_t{64} << 20;  // larger ones are not taken apart

// Whether extract_text has something to do for this kind of content.
bool is_document(std::string_view mime);

// nullopt: a kind of content that has no text here. kTooLarge, kUnavailable (what to install), kInvalid (damaged),
// kTimeout. `charset` is what a server said; may be empty.
Result<std::optional<DocumentText>> extract_text(std::string_view mime, std::string_view bytes,
                                                 std::string_view charset = {});

// A page as text with headings and lists as in Markdown. Scripts and styles are left out. Whatever the bytes are, it is
// taken as browsers take it.
Result<DocumentText> html_text(std::string_view bytes, std::string_view charset = {});

// By poppler's pdftotext, confined: a PDF is hostile.
Result<DocumentText> pdf_text(std::string_view bytes);

// Documents, sheets and slides of Microsoft Office (docx, xlsx, pptx) and LibreOffice (odt, ods, odp). Of an Excel
// sheet, the cells of all sheets; of one of LibreOffice, the texts. Text that tracked changes have deleted is left out;
// Word's footnotes and endnotes come after its text.
bool is_office_document(std::string_view mime);
Result<DocumentText> office_text(std::string_view mime, std::string_view bytes);

}  // namespace warren
