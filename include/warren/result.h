// Result<T>: a value or an Error. Status is Result<void>.
//
// Warren's functions do not throw; functions that can fail for external reasons return a Result. WARREN_TRY yields the
// value, or returns the error to the caller.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <warren/error.h>

namespace warren {

struct Ok {};

template <class T>
class [[nodiscard]] Result {
 public:
  using Value = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  // Version 14 of the formatter does not know requires clauses.
  // clang-format off
  template <class U>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}  // NOLINT
  // clang-format on

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const = delete;  // use ok(): a Result<bool> would be ambiguous

  // The value. Requires ok(); otherwise value() throws std::bad_variant_access.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }

  const Error& error() const { return std::get<1>(state_); }
  Error take_error() && { return std::get<1>(std::move(state_)); }
  T take_value() && { return std::get<0>(std::move(state_)); }

  // Prefixes an error's message with what the caller was doing. If the text is expensive to build, pass a function: it
  // is called only on failure.
  Result within(std::string_view what) && {
    if (!ok()) std::move(std::get<1>(state_)).within(what);
    return std::move(*this);
  }

  template <std::invocable F>
  Result within(F&& what) && {
    return ok() ? std::move(*this) : std::move(*this).within(std::string_view(what()));
  }

  void ignore(const char* why) const { (void)why; }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;

  Result(Ok) {}                                      // NOLINT: implicit by design
  Result(Error error) : error_(std::move(error)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const = delete;

  const Error& error() const { return *error_; }
  Error take_error() && { return *std::move(error_); }
  void take_value() && {}

  Result within(std::string_view what) && {
    if (error_) std::move(*error_).within(what);
    return std::move(*this);
  }

  template <std::invocable F>
  Result within(F&& what) && {
    return ok() ? std::move(*this) : std::move(*this).within(std::string_view(what()));
  }

  // Drops the error on purpose, and states why it does not matter.
  void ignore(const char* why) const { (void)why; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace warren

#define WARREN_CONCAT_INNER(a, b) a##b
#define WARREN_CONCAT(a, b) WARREN_CONCAT_INNER(a, b)
// Statement expressions are an extension of GCC and Clang; __extension__ keeps -Wpedantic quiet about it.
#define WARREN_TRY_NAMED(name, ...)        \
  __extension__({                          \
    auto&& name = (__VA_ARGS__);           \
    if (!name.ok()) [[unlikely]]           \
      return std::move(name).take_error(); \
    std::move(name).take_value();          \
  })
// Use it as a whole initialiser, statement or `if` condition, never inside an argument list or braced list.
#define WARREN_TRY(...) WARREN_TRY_NAMED(WARREN_CONCAT(warren_try_, __COUNTER__), __VA_ARGS__)
