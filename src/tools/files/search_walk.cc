#include "tools/files/search_walk.h"

#include <algorithm>

#include "base/below.h"
#include "tools/files/file_tools.h"
#include "vfs/namespace.h"

namespace warren {

bool comes_before(std::string_view path, std::string_view other) {
  // '/' ends a name, so it sorts before every byte.
  auto rank = [](char c) { return c == '/' ? 0 : static_cast<int>(static_cast<unsigned char>(c)) + 1; };
  return std::lexicographical_compare(path.begin(), path.end(), other.begin(), other.end(),
                                      [&](char a, char b) { return rank(a) < rank(b); });
}

Status walk_listed(NamespaceView& view, const std::string& start, const SearchWalkOptions& options,
                   const std::function<Result<WalkNext>(const WalkEntry&)>& visit) {
  std::size_t base_depth =
      static_cast<std::size_t>(std::count(start.begin(), start.end(), '/')) - (start == "/" ? 1 : 0);
  auto judge = [&](const WalkEntry& entry) -> Result<WalkNext> {
    WalkNext next = WalkNext::kContinue;
    auto depth = static_cast<std::size_t>(std::count(entry.path.begin(), entry.path.end(), '/')) -
                 (entry.path == "/" ? 1 : 0) - base_depth;
    bool is_directory = entry.attributes.is_directory();
    bool is_done = !options.after.empty() && !comes_before(options.after, entry.path);
    bool is_on_the_way = is_at_or_below(options.after, entry.path);
    if (!is_done && !(depth == 0 && is_directory)) next = WARREN_TRY(visit(entry));
    if (next != WalkNext::kContinue || !is_directory) return next;
    if (is_done && !is_on_the_way) return WalkNext::kSkip;
    if (depth >= static_cast<std::size_t>(options.depth_max)) return WalkNext::kSkip;
    return WARREN_TRY(view.may(Rights::kList, entry.path))
    ? WalkNext::kContinue : WalkNext::kSkip;
  };
  return walk(view, start, judge, {.follow = Follow::kNo});
}

Status search_walk(ToolContext& context, const std::string& start, const SearchWalkOptions& options,
                   const std::function<Result<WalkNext>(const WalkEntry&)>& visit) {
  if (!options.after.empty() && !is_at_or_below(options.after, start)) {
    return Error(Code::kInvalid, "'cursor' is not of a search at this path",
                 "Use next_cursor of the last page, with the same path.");
  }
  return walk_listed(context.view, start, options, [&](const WalkEntry& entry) -> Result<WalkNext> {
    WARREN_TRY(check_cancelled(context));
    return visit(entry);
  });
}

}  // namespace warren
