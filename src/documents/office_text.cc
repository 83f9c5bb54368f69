// Office documents are ZIP archives with XML in them. `unzip` takes the XML out, in a process with limits, so that an
// archive that is larger inside than outside does no harm.
#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "documents/document_text.h"
#include "documents/encoding.h"
#include "documents/libxml2.h"
#include "documents/office_xml.h"
#include "documents/sheet_text.h"

namespace warren {
namespace {

constexpr std::string_view kWordDocument = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
constexpr std::array<std::string_view, 3> kWordMembers{"word/document.xml", "word/footnotes.xml", "word/endnotes.xml"};
constexpr std::string_view kExcelSheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

struct OfficeKind {
  std::string_view mime;
  std::string_view members;  // a pattern of unzip's; "": it needs more than one
};
constexpr std::array<OfficeKind, 6> kOfficeKinds{{
    {kWordDocument, ""},
    {"application/vnd.openxmlformats-officedocument.presentationml.presentation", "ppt/slides/slide*.xml"},
    {kExcelSheet, ""},
    {"application/vnd.oasis.opendocument.text", "content.xml"},
    {"application/vnd.oasis.opendocument.presentation", "content.xml"},
    {"application/vnd.oasis.opendocument.spreadsheet", "content.xml"},
}};

const OfficeKind* find_office_kind(std::string_view mime) {
  for (const OfficeKind& kind : kOfficeKinds) {
    if (kind.mime == mime) return &kind;
  }
  return nullptr;
}

bool ends_line(std::string_view name) {
  return name == "p" || name == "h" || name == "si" || name == "br" || name == "line-break" || name == "table-row";
}

// What tracked changes have taken out of the document: w:del, w:moveFrom; text:tracked-changes of LibreOffice.
bool is_deleted(std::string_view name) {
  return name == "del" || name == "delText" || name == "moveFrom" || name == "tracked-changes";
}

// Word's notes and the references to them, as in Markdown. Those with a type are lines that separate notes.
std::string note_mark(const xmlNode* element) {
  std::string_view name = local_name(element);
  bool is_note = (name == "footnote" || name == "endnote") && office_attribute(element, "type").empty();
  if (!is_note && name != "footnoteReference" && name != "endnoteReference") return {};
  return fmt::format("[^{}{}]{}", name.starts_with("end") ? "e" : "", office_attribute(element, "id"),
                     is_note ? ": " : "");
}

// The text of all elements, in their order. Without recursion: XML can be deep.
void add_text_below(const xmlNode* root, std::string& text) {
  for (const xmlNode* node = root; node != nullptr;) {
    bool is_element = node->type == XML_ELEMENT_NODE;
    if (node->type == XML_TEXT_NODE && node->content != nullptr) text += reinterpret_cast<const char*>(node->content);
    if (is_element && local_name(node) == "tab") text += '\t';
    if (is_element) text += note_mark(node);
    if (is_element && node->children != nullptr && !is_deleted(local_name(node))) {
      node = node->children;
      continue;
    }
    for (;;) {
      if (node->type == XML_ELEMENT_NODE && ends_line(local_name(node))) text += '\n';
      if (node == root) return;
      if (node->next != nullptr) break;
      node = node->parent;
      if (node == nullptr) return;
    }
    node = node->next;
  }
}

// One or more XML documents, one after the other, as unzip prints them. A single one need not have a declaration.
std::vector<std::string_view> documents_in(std::string_view output) {
  constexpr std::string_view kStart = "<?xml";
  std::vector<std::string_view> all;
  for (std::size_t at = output.find(kStart); at != output.npos;) {
    std::size_t next = output.find(kStart, at + kStart.size());
    all.push_back(output.substr(at, next == output.npos ? next : next - at));
    at = next;
  }
  if (all.empty()) all.push_back(output);
  return all;
}

Result<std::string> text_of_members(std::string_view members, std::string_view bytes) {
  const Libxml2* library = WARREN_TRY(load_libxml2());
  std::string output = WARREN_TRY(unzip_member(bytes, std::string(members)));
  std::string text;
  bool has_any = false;
  for (std::string_view xml : documents_in(output)) {
    OfficeXml doc = parse_office_xml(*library, xml);
    const xmlNode* root = doc ? library->xmlDocGetRootElement(doc.get()) : nullptr;
    if (root == nullptr) continue;
    has_any = true;
    add_text_below(root, text);
  }
  if (!has_any) return Error(Code::kInvalid, "the XML of the document is damaged");
  return text;
}

// The document, then its notes, if it has any.
Result<std::string> word_text(std::string_view bytes) {
  std::string members = WARREN_TRY(list_members(bytes));
  members.insert(0, "\n");
  std::string text;
  for (std::string_view member : kWordMembers) {
    bool is_there = members.find(fmt::format("\n{}\n", member)) != members.npos;
    if (!is_there && member != kWordMembers.front()) continue;
    std::string part = WARREN_TRY(text_of_members(member, bytes));
    std::size_t start = member == kWordMembers.front() ? 0 : std::min(part.find_first_not_of('\n'), part.size());
    text += part.substr(start);
  }
  return text;
}

Result<std::string> text_in_archive(const OfficeKind& kind, std::string_view bytes) {
  if (kind.mime == kExcelSheet) return sheet_text(bytes);
  if (kind.mime == kWordDocument) return word_text(bytes);
  return text_of_members(kind.members, bytes);
}

}  // namespace

bool is_office_document(std::string_view mime) { return find_office_kind(mime) != nullptr; }

Result<DocumentText> office_text(std::string_view mime, std::string_view bytes) {
  const OfficeKind* kind = find_office_kind(mime);
  if (kind == nullptr) return Error(Code::kInvalid, "not an office document");
  DocumentText document;
  document.text = WARREN_TRY(text_in_archive(*kind, bytes));
  std::optional<std::string> text = decode_text(document.text);
  if (!text) return Error(Code::kInvalid, "the document has no readable text");
  document.text = *std::move(text);
  return document;
}

}  // namespace warren
