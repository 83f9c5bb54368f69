#include "clients/libcurl.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace warren {
namespace {

template <class F>
void find_curl_function(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Libcurl> load_curl() {
  void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error(Code::kUnavailable, "curl's library 'libcurl.so.4' is not installed",
                 "install it: on Debian the package libcurl4");
  }
  Libcurl curl;
  const char* missing = nullptr;
#define WARREN_CURL_FIND(name) find_curl_function(library, #name, curl.name, missing);
  WARREN_CURL_FUNCTIONS(WARREN_CURL_FIND)
#undef WARREN_CURL_FIND
  if (missing != nullptr) return Error(Code::kUnavailable, fmt::format("curl's library has no {}", missing));
  if (curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return Error(Code::kUnavailable, "curl's library cannot be initialised");
  }
  return curl;
}

}  // namespace

Result<const Libcurl*> load_libcurl() {
  static const Result<Libcurl> loaded = load_curl();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace warren
