// The file-type library of file(1), loaded with the first question.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <magic.h>

#include "base/result.h"

namespace warren {

// clang-format off
#define WARREN_MAGIC_FUNCTIONS(X) X(magic_open) X(magic_close) X(magic_load) X(magic_buffer) X(magic_error) X(magic_setparam)
// clang-format on

struct Libmagic {
#define WARREN_MAGIC_POINTER(name) decltype(&::name) name = nullptr;
  WARREN_MAGIC_FUNCTIONS(WARREN_MAGIC_POINTER)
#undef WARREN_MAGIC_POINTER
};

// Loaded once per process. kUnavailable says what to install.
Result<const Libmagic*> load_libmagic();

}  // namespace warren
