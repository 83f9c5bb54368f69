// A walk over what a caller may list, in a fixed order, that continues after a path: for find, grep and lists in pages.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/tree_ops.h"
#include "tools/tool.h"

namespace warren {

// The order of a walk: a directory before what is in it, names by bytes. Not the order of the texts, in which "/a!"
// comes before "/a/b".
bool comes_before(std::string_view path, std::string_view other);

struct SearchWalkOptions {
  std::string after;  // continue after this path; "": from the start
  int depth_max = limits::kTreeDepth;
};

// Calls `visit` for what is below `start` (not for the start itself, unless it is no directory), until it returns
// kStop. Directories that the caller may not list are passed over. kUnavailable once the call is cancelled.
Status search_walk(ToolContext& context, const std::string& start, const SearchWalkOptions& options,
                   const std::function<Result<WalkNext>(const WalkEntry&)>& visit);

// What may be read of the trees of a NamespaceView, for doors that have no ToolContext.
Status walk_listed(NamespaceView& view, const std::string& start, const SearchWalkOptions& options,
                   const std::function<Result<WalkNext>(const WalkEntry&)>& visit);

}  // namespace warren
