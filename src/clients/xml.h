// XML documents that services answer with, as a tree. On Expat, loaded on first use.
//
// A document is hostile input: a document type is refused, and with it every entity of its own; depth and the number of
// elements are limited.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

struct XmlElement {
  std::string name;  // without its namespace prefix
  std::string text;  // all of its own text together, as it stands
  std::vector<XmlElement> children;

  const XmlElement* find(std::string_view child) const;    // the first one
  std::string_view text_of(std::string_view child) const;  // empty if there is none
};

// The root. kCorrupt: not a whole document, or beyond the limits.
Result<XmlElement> parse_xml(std::string_view text);

// For text of an element: & < > and carriage returns. kInvalid: a character that XML cannot express, or not UTF-8.
Result<std::string> escape_xml(std::string_view text);

}  // namespace warren
