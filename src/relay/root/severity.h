// Severity of a log line.
#pragma once

#include <optional>
#include <string_view>

namespace warren::relay {

enum class Severity { kDebug, kInfo, kWarning, kError };  // in this order

std::string_view name_of(Severity severity);
std::optional<Severity> find_severity(std::string_view name);

}  // namespace warren::relay
