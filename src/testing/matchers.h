// EXPECT_OK and friends: a failed Result prints its message.
#pragma once

#include <gtest/gtest.h>

#include "base/result.h"

namespace warren::testing {

inline ::testing::AssertionResult is_ok(const Error* error, const char* expression) {
  if (error == nullptr) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expression << "\n  failed: " << error->message() << " ("
                                       << name_of(error->code()) << ")";
}

template <class T>
::testing::AssertionResult check_ok(const char* expression, const Result<T>& result) {
  return is_ok(result.ok() ? nullptr : &result.error(), expression);
}

// The code of a failure, or nullopt for success: EXPECT_EQ(error_of(x), Code::kNotFound).
template <class T>
std::optional<Code> error_of(const Result<T>& result) {
  if (result.ok()) return std::nullopt;
  return result.error().code();
}

}  // namespace warren::testing

#define EXPECT_OK(...) EXPECT_PRED_FORMAT1(::warren::testing::check_ok, (__VA_ARGS__))
#define ASSERT_OK(...) ASSERT_PRED_FORMAT1(::warren::testing::check_ok, (__VA_ARGS__))
