// The functions of fmt that Warren calls, for libwarren.a: Debian has fmt as a shared library only, and a program that
// is linked statically needs them all the same.
//
// In header-only mode fmt's functions are inline, under the same names as in its library. Whoever takes the address of
// one has a copy of it, as a weak symbol: it satisfies our other objects, and clashes neither with the shared library
// nor with a user's own fmt. The list is complete if tests/install links a static program.
#define FMT_HEADER_ONLY
#include <cstdint>
#include <locale>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace fmt {
namespace detail {
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
template std::locale locale_ref::get<std::locale>() const;
template dragonbox::decimal_fp<float> dragonbox::to_decimal<float>(float);
template dragonbox::decimal_fp<double> dragonbox::to_decimal<double>(double);
template void vformat_to<char>(buffer<char>&, basic_string_view<char>, basic_format_args<FMT_BUFFER_CONTEXT(char)>,
                               locale_ref);
}  // namespace detail
}  // namespace fmt

namespace {

[[gnu::used]] std::string (*const kFormat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
[[gnu::used]] auto* const kAssertFail = &fmt::detail::assert_fail;
[[gnu::used]] auto* const kThrow = &fmt::detail::throw_format_error;
[[gnu::used]] bool (*const kIsPrintable)(std::uint32_t) = &fmt::detail::is_printable;

}  // namespace
