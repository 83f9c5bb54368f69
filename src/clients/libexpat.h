// Expat, loaded with the first document.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <expat.h>

#include "base/result.h"

namespace warren {

// clang-format off
#define WARREN_EXPAT_FUNCTIONS(X) \
  X(XML_ParserCreate) X(XML_ParserFree) X(XML_SetUserData) X(XML_SetElementHandler) X(XML_SetCharacterDataHandler) \
  X(XML_SetStartDoctypeDeclHandler) X(XML_StopParser) X(XML_Parse) X(XML_GetErrorCode) X(XML_ErrorString) \
  X(XML_GetCurrentLineNumber)
// clang-format on

struct Libexpat {
#define WARREN_EXPAT_POINTER(name) decltype(&::name) name = nullptr;
  WARREN_EXPAT_FUNCTIONS(WARREN_EXPAT_POINTER)
#undef WARREN_EXPAT_POINTER
};

// Loaded once per process. kUnavailable says what to install.
Result<const Libexpat*> load_libexpat();

}  // namespace warren
