#include "clients/xml.h"

#include <limits>
#include <memory>

#include <fmt/format.h>

#include "base/utf8.h"
#include "clients/libexpat.h"

namespace warren {
namespace {

constexpr std::size_t kXmlDepth = 32;
constexpr std::size_t kXmlElements = 200'000;

struct XmlBuilder {
  const Libexpat& expat;
  XML_Parser parser;
  XmlElement document;                 // its child is the root
  std::vector<XmlElement*> open = {};  // the last is the innermost
  std::size_t count = 0;
  const char* refusal = nullptr;

  void refuse(const char* why) {
    if (refusal == nullptr) refusal = why;
    expat.XML_StopParser(parser, XML_FALSE);
  }
};

void on_xml_start(void* context, const XML_Char* name, const XML_Char**) {
  auto& builder = *static_cast<XmlBuilder*>(context);
  if (builder.refusal != nullptr) return;
  if (builder.open.size() > kXmlDepth) return builder.refuse("is nested too deeply");
  if (++builder.count > kXmlElements) return builder.refuse("has too many elements");
  std::string_view plain = name;
  plain = plain.substr(plain.find(':') + 1);  // npos + 1 is 0
  XmlElement& parent = *builder.open.back();
  parent.children.push_back({.name = std::string(plain), .text = {}, .children = {}});
  builder.open.push_back(&parent.children.back());
}

void on_xml_end(void* context, const XML_Char*) {
  auto& builder = *static_cast<XmlBuilder*>(context);
  if (builder.refusal == nullptr) builder.open.pop_back();
}

void on_xml_text(void* context, const XML_Char* text, int size) {
  auto& builder = *static_cast<XmlBuilder*>(context);
  if (builder.refusal == nullptr) builder.open.back()->text.append(text, static_cast<std::size_t>(size));
}

void on_xml_doctype(void* context, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<XmlBuilder*>(context)->refuse("declares a document type");
}

}  // namespace

const XmlElement* XmlElement::find(std::string_view child) const {
  for (const XmlElement& one : children) {
    if (one.name == child) return &one;
  }
  return nullptr;
}

std::string_view XmlElement::text_of(std::string_view child) const {
  const XmlElement* found = find(child);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<XmlElement> parse_xml(std::string_view text) {
  const Libexpat& expat = *WARREN_TRY(load_libexpat());
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return Error(Code::kCorrupt, "the XML document is too large");
  }
  std::unique_ptr<std::remove_pointer_t<XML_Parser>, decltype(expat.XML_ParserFree)> parser(
      expat.XML_ParserCreate(nullptr), expat.XML_ParserFree);
  if (parser == nullptr) return Error(Code::kUnavailable, "cannot start the XML parser: out of memory");
  XmlBuilder builder{.expat = expat, .parser = parser.get(), .document = {}};
  builder.open.push_back(&builder.document);
  expat.XML_SetUserData(parser.get(), &builder);
  expat.XML_SetElementHandler(parser.get(), on_xml_start, on_xml_end);
  expat.XML_SetCharacterDataHandler(parser.get(), on_xml_text);
  expat.XML_SetStartDoctypeDeclHandler(parser.get(), on_xml_doctype);
  XML_Status status = expat.XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
  if (builder.refusal != nullptr) return Error(Code::kCorrupt, fmt::format("the XML document {}", builder.refusal));
  if (status != XML_STATUS_OK || builder.document.children.empty()) {
    return Error(Code::kCorrupt, fmt::format("the XML document is damaged: {} in line {}",
                                             expat.XML_ErrorString(expat.XML_GetErrorCode(parser.get())),
                                             expat.XML_GetCurrentLineNumber(parser.get())));
  }
  return std::move(builder.document.children.front());
}

Result<std::string> escape_xml(std::string_view text) {
  if (!is_utf8(text)) return Error(Code::kInvalid, "text for XML must be UTF-8");
  std::string escaped;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' && c != '\t' && c != '\n' && c != '\r') {
      return Error(Code::kInvalid, "XML cannot express control characters");
    }
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '\r': escaped += "&#13;"; break;
      default: escaped += c;
    }
  }
  // U+FFFE and U+FFFF are not characters of XML.
  if (escaped.find("\xEF\xBF\xBE") != std::string::npos || escaped.find("\xEF\xBF\xBF") != std::string::npos) {
    return Error(Code::kInvalid, "XML cannot express U+FFFE and U+FFFF");
  }
  return escaped;
}

}  // namespace warren
