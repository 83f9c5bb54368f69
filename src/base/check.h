// WARREN_CHECK: our own invariants, on in release too. Input is never checked with it.
#pragma once

namespace warren {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace warren

#define WARREN_CHECK(condition)                               \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      ::warren::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
