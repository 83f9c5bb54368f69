#include "vfs/vector_query.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/vector/vector_item.h"

namespace warren {

Result<std::vector<VectorMatch>> query_mounted(VectorIndex& index, std::string_view mount, std::string_view path,
                                               const VectorQuery& query,
                                               const std::function<Result<bool>(const std::string& path)>& may_read) {
  VectorQuery wide = query;
  for (;;) {
    std::vector<VectorMatch> found = WARREN_TRY(index.query(wide));
    bool is_all = found.size() < wide.top_k || wide.top_k == kVectorTopMax;
    std::vector<VectorMatch> shown;
    for (VectorMatch& match : found) {
      match.item.id = fmt::format("{}/{}.json", mount, match.item.id);
      std::string_view at = match.item.id;
      bool is_below = at.starts_with(path) && (at.size() == path.size() || at[path.size()] == '/');
      if (!is_below || !WARREN_TRY(may_read(match.item.id))) continue;
      shown.push_back(std::move(match));
      if (shown.size() == query.top_k) return shown;
    }
    if (is_all) return shown;
    wide.top_k = std::min(wide.top_k * 8, kVectorTopMax);
  }
}

}  // namespace warren
