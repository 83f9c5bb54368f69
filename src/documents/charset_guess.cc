#include "documents/charset_guess.h"

#include <cstddef>
#include <memory>

#include <dlfcn.h>

namespace warren {
namespace {

constexpr std::size_t kGuessedBytes = std::size_t{256} << 10;

// The functions of uchardet.h, as far as they are used. Declared here, so that nothing more is needed
// to build than to run.
struct Uchardet {
  void* (*create)() = nullptr;
  void (*destroy)(void*) = nullptr;
  int (*handle_data)(void*, const char*, std::size_t) = nullptr;
  void (*data_end)(void*) = nullptr;
  const char* (*get_charset)(void*) = nullptr;
};

template <class F>
bool find_uchardet_function(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

// Null functions if it is not installed.
Uchardet load_uchardet() {
  Uchardet loaded;
  void* library = ::dlopen("libuchardet.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  bool is_whole = find_uchardet_function(library, "uchardet_new", loaded.create) &&
                  find_uchardet_function(library, "uchardet_delete", loaded.destroy) &&
                  find_uchardet_function(library, "uchardet_handle_data", loaded.handle_data) &&
                  find_uchardet_function(library, "uchardet_data_end", loaded.data_end) &&
                  find_uchardet_function(library, "uchardet_get_charset", loaded.get_charset);
  return is_whole ? loaded : Uchardet{};
}

}  // namespace

std::string guess_charset(std::string_view bytes) {
  static const Uchardet library = load_uchardet();
  if (library.create == nullptr) return {};
  std::unique_ptr<void, void (*)(void*)> detector(library.create(), library.destroy);
  std::string_view beginning = bytes.substr(0, kGuessedBytes);
  if (detector == nullptr || library.handle_data(detector.get(), beginning.data(), beginning.size()) != 0) return {};
  library.data_end(detector.get());
  const char* found = library.get_charset(detector.get());
  return found == nullptr ? std::string() : std::string(found);
}

}  // namespace warren
