#include "pg/libpq.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace warren::pg {
namespace {

template <class F>
void find(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Libpq> load() {
  void* library = ::dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error(Code::kUnavailable, "PostgreSQL's client library 'libpq.so.5' is not installed",
                 "install it: on Debian the package libpq5");
  }
  Libpq pq;
  const char* missing = nullptr;
#define WARREN_PQ_FIND(name) find(library, #name, pq.name, missing);
  WARREN_PQ_FUNCTIONS(WARREN_PQ_FIND)
#undef WARREN_PQ_FIND
  if (missing != nullptr) {
    return Error(Code::kUnavailable, fmt::format("PostgreSQL's client library has no {}", missing),
                 "version 14 or newer is needed");
  }
  return pq;
}

}  // namespace

Result<const Libpq*> load_libpq() {
  static const Result<Libpq> loaded = load();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace warren::pg
