// curl's library, loaded on the first request: it pulls in thirty libraries, which would slow down every start of the
// program.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <curl/curl.h>

#include "base/result.h"

namespace warren {

// curl's header defines type-checking macros of these names, which would expand below.
#undef curl_easy_setopt
#undef curl_easy_getinfo

// The functions we use, by name.
// clang-format off
#define WARREN_CURL_FUNCTIONS(X) \
  X(curl_global_init) X(curl_easy_init) X(curl_easy_reset) X(curl_easy_cleanup) X(curl_easy_setopt) \
  X(curl_easy_getinfo) X(curl_easy_perform) X(curl_easy_strerror) X(curl_slist_append) X(curl_slist_free_all)
// clang-format on

struct Libcurl {
#define WARREN_CURL_POINTER(name) decltype(&::name) name = nullptr;
  WARREN_CURL_FUNCTIONS(WARREN_CURL_POINTER)
#undef WARREN_CURL_POINTER
};

// Loaded once per process. kUnavailable says what to install.
Result<const Libcurl*> load_libcurl();

}  // namespace warren
