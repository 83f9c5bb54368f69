#include "documents/office_xml.h"

#include <vector>

#include "documents/limited_program.h"

namespace warren {
namespace {

// What unzip says of a broken archive names our descriptors, and is of no use to anybody.
Result<std::string> run_unzip(std::vector<std::string> words, std::string_view archive) {
  words.insert(words.begin(), "unzip");
  Result<std::string> output = run_limited({.words = std::move(words), .package = "unzip"}, archive);
  if (output.ok() || output.error().code() != Code::kInvalid) return output;
  return Error(Code::kInvalid,
               "the document is damaged, larger inside than is allowed, or has no text where it should");
}

}  // namespace

OfficeXml parse_office_xml(const Libxml2& library, std::string_view xml) {
  constexpr int kOptions = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_COMPACT;
  return {library.xmlReadMemory(xml.data(), static_cast<int>(xml.size()), nullptr, nullptr, kOptions),
          FreeOfficeXml{&library}};
}

std::string_view local_name(const xmlNode* node) {
  return node->name == nullptr ? std::string_view() : reinterpret_cast<const char*>(node->name);
}

const xmlNode* next_office_node(const xmlNode* root, const xmlNode* node) {
  if (node->type == XML_ELEMENT_NODE && node->children != nullptr) return node->children;
  while (node != root && node->next == nullptr) node = node->parent;
  return node == root ? nullptr : node->next;
}

std::string office_attribute(const xmlNode* element, std::string_view name) {
  for (const xmlAttr* one = element->properties; one != nullptr; one = one->next) {
    if (one->name == nullptr || name != reinterpret_cast<const char*>(one->name)) continue;
    std::string value;
    for (const xmlNode* part = one->children; part != nullptr; part = part->next) {
      if (part->content != nullptr) value += reinterpret_cast<const char*>(part->content);
    }
    return value;
  }
  return {};
}

Result<std::string> unzip_member(std::string_view archive, const std::string& member) {
  return run_unzip({"-p", "-qq", "/proc/self/fd/0", member}, archive);
}

Result<std::string> list_members(std::string_view archive) { return run_unzip({"-Z1", "/proc/self/fd/0"}, archive); }

}  // namespace warren
