#include "clients/libexpat.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace warren {
namespace {

template <class F>
void find_expat_function(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Libexpat> load_expat() {
  void* library = ::dlopen("libexpat.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error(Code::kUnavailable, "the XML library 'libexpat.so.1' is not installed",
                 "install it: on Debian the package libexpat1");
  }
  Libexpat expat;
  const char* missing = nullptr;
#define WARREN_EXPAT_FIND(name) find_expat_function(library, #name, expat.name, missing);
  WARREN_EXPAT_FUNCTIONS(WARREN_EXPAT_FIND)
#undef WARREN_EXPAT_FIND
  if (missing != nullptr) return Error(Code::kUnavailable, fmt::format("the XML library has no {}", missing));
  return expat;
}

}  // namespace

Result<const Libexpat*> load_libexpat() {
  static const Result<Libexpat> loaded = load_expat();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace warren
