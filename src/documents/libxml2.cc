#include "documents/libxml2.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace warren {
namespace {

template <class F>
void find_xml_function(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Libxml2> load_xml() {
  void* library = ::dlopen("libxml2.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error(Code::kUnavailable, "the HTML library 'libxml2.so.2' is not installed",
                 "install it: on Debian the package libxml2");
  }
  Libxml2 xml;
  const char* missing = nullptr;
#define WARREN_XML_FIND(name) find_xml_function(library, #name, xml.name, missing);
  WARREN_XML_FUNCTIONS(WARREN_XML_FIND)
#undef WARREN_XML_FIND
  if (missing != nullptr) return Error(Code::kUnavailable, fmt::format("the HTML library has no {}", missing));
  xml.xmlInitParser();
  return xml;
}

}  // namespace

Result<const Libxml2*> load_libxml2() {
  static const Result<Libxml2> loaded = load_xml();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace warren
