// Where models are installed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

inline constexpr std::string_view kDefaultModel = "all-MiniLM-L6-v2";

// The folders that are searched: $WARREN_MODELS; share/warren/models beside the program's own folder; for a program
// that is still where it was built, where the source tree's set-up puts them.
std::vector<std::string> model_places();
// The same but the first, for the program at this path.
std::vector<std::string> model_places_of(const std::string& program);

// A path is returned as it is; a name without a slash is looked for in the places; an empty one is the default model.
// kNotFound: the hint says how to install one.
Result<std::string> find_model_folder(const std::string& name, const std::vector<std::string>& places);

}  // namespace warren
