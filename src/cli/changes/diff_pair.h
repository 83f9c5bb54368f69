// diff A..B: the difference between two sessions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cli/context.h"

namespace warren::cli {

// "a..b" → both ids; nullopt for anything else, such as a path with "..".
std::optional<std::pair<std::string, std::string>> find_pair(std::string_view id);

Result<Exit> diff_pair(Context& context, const Arguments& args, const std::pair<std::string, std::string>& ids);

}  // namespace warren::cli
