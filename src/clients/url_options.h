// Options in the query of a service's URL: "?timeout=5s&connections=4".
#pragma once

#include <chrono>
#include <span>
#include <string_view>

#include "base/result.h"
#include "clients/url.h"

namespace warren {

// All of them are kInvalid with the option's name. The value is in the message only where it cannot be a secret.
Result<std::chrono::milliseconds> duration_option(const Url& url, std::string_view name,
                                                  std::chrono::milliseconds otherwise);  // 500ms, 30s, 5m; above 0
Result<std::size_t> number_option(const Url& url, std::string_view name, std::size_t otherwise, std::size_t min,
                                  std::size_t max);
// Refuses options that are not in `known`, and names those that are.
Status check_options(const Url& url, std::span<const std::string_view> known);

}  // namespace warren
