// libxml2, whose parser for HTML is loaded with the first page.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <libxml/HTMLparser.h>
#include <libxml/parser.h>
#include <libxml/tree.h>

#include "base/result.h"

namespace warren {

// clang-format off
#define WARREN_XML_FUNCTIONS(X) X(xmlInitParser) X(htmlReadMemory) X(xmlFreeDoc) X(xmlDocGetRootElement) X(xmlHasProp)
// clang-format on

struct Libxml2 {
#define WARREN_XML_POINTER(name) decltype(&::name) name = nullptr;
  WARREN_XML_FUNCTIONS(WARREN_XML_POINTER)
#undef WARREN_XML_POINTER
};

// Loaded once per process. kUnavailable says what to install.
Result<const Libxml2*> load_libxml2();

}  // namespace warren
