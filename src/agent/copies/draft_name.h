// The names of files that are filled from a stream and replace their target when they are complete: agent/files/put.cc.
#pragma once

#include <string_view>

#include "base/path.h"

namespace warren {

inline constexpr std::string_view kDraftPrefix = ".warren-draft-";

// Users are not shown these.
inline bool is_draft_path(std::string_view path) { return base_name(path).starts_with(kDraftPrefix); }

}  // namespace warren
