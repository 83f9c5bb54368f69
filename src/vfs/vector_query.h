// Queries of a vector index that is mounted in a namespace.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vector/vector_index.h"
#include "base/result.h"

namespace warren {

// Items of the index mounted at `mount` that are at or below `path` and may be read; their ids become paths:
// "/mem/semantic/a.json". What is refused is replaced by the next best, up to the index's limit of results.
Result<std::vector<VectorMatch>> query_mounted(VectorIndex& index, std::string_view mount, std::string_view path,
                                               const VectorQuery& query,
                                               const std::function<Result<bool>(const std::string& path)>& may_read);

}  // namespace warren
