#include "clients/hiredis_library.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace warren::redis {
namespace {

// The version whose headers we were built with: its structures differ between versions.
#define WARREN_HIREDIS_TEXT(x) #x
#define WARREN_HIREDIS_NAME(version) "libhiredis.so." WARREN_HIREDIS_TEXT(version)
constexpr const char* kHiredisName = WARREN_HIREDIS_NAME(HIREDIS_SONAME);

template <class F>
void find_in_hiredis(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Hiredis> open_hiredis() {
  void* library = ::dlopen(kHiredisName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error(Code::kUnavailable, fmt::format("Redis's client library {} is not installed", kHiredisName),
                 "install it: on Debian 12 the package libhiredis0.14");
  }
  Hiredis hiredis;
  const char* missing = nullptr;
#define WARREN_HIREDIS_FIND(name) find_in_hiredis(library, #name, hiredis.name, missing);
  WARREN_HIREDIS_FUNCTIONS(WARREN_HIREDIS_FIND)
#undef WARREN_HIREDIS_FIND
  if (missing != nullptr) {
    return Error(Code::kUnavailable, fmt::format("Redis's client library {} has no {}", kHiredisName, missing));
  }
  return hiredis;
}

}  // namespace

Result<const Hiredis*> load_hiredis() {
  static const Result<Hiredis> loaded = open_hiredis();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace warren::redis
