// The XML in the archives of office documents.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "documents/libxml2.h"

namespace warren {

struct FreeOfficeXml {
  const Libxml2* library = nullptr;
  void operator()(xmlDoc* doc) const { library->xmlFreeDoc(doc); }
};
using OfficeXml = std::unique_ptr<xmlDoc, FreeOfficeXml>;

// Null if it is not well-formed. No network, no external files, no entities beyond XML's own.
OfficeXml parse_office_xml(const Libxml2& library, std::string_view xml);

std::string_view local_name(const xmlNode* node);
// The next element or text in the order of the document, below `root`; null: there is none. Without recursion: XML can
// be deep.
const xmlNode* next_office_node(const xmlNode* root, const xmlNode* node);
// Of an element, whatever its prefix; "" if it has none.
std::string office_attribute(const xmlNode* element, std::string_view name);

// What unzip prints of the archive, with these arguments after its name.
Result<std::string> unzip_member(std::string_view archive, const std::string& member);
Result<std::string> list_members(std::string_view archive);  // one per line

}  // namespace warren
