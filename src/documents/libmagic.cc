#include "documents/libmagic.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace warren {
namespace {

template <class F>
void find_magic_function(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Libmagic> load_magic() {
  void* library = ::dlopen("libmagic.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error(Code::kUnavailable, "the library for kinds of files, 'libmagic.so.1', is not installed",
                 "install it: on Debian the package libmagic1");
  }
  Libmagic magic;
  const char* missing = nullptr;
#define WARREN_MAGIC_FIND(name) find_magic_function(library, #name, magic.name, missing);
  WARREN_MAGIC_FUNCTIONS(WARREN_MAGIC_FIND)
#undef WARREN_MAGIC_FIND
  if (missing != nullptr) return Error(Code::kUnavailable, fmt::format("the file-type library has no {}", missing));
  return magic;
}

}  // namespace

Result<const Libmagic*> load_libmagic() {
  static const Result<Libmagic> loaded = load_magic();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace warren
