#include "changes/filter.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "text/glob.h"

namespace warren {

ChangeFilter filter_of(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  std::vector<Glob> globs;
  for (const std::string& pattern : patterns) globs.emplace_back(pattern);
  return [globs = std::move(globs)](std::string_view path) {
    return std::any_of(globs.begin(), globs.end(), [&](const Glob& glob) { return glob.matches(path); });
  };
}

Status check_patterns(const std::vector<std::string>& patterns, const std::vector<TreeChange>& changes) {
  for (const std::string& pattern : patterns) {
    Glob glob(pattern);
    bool is_used = std::any_of(changes.begin(), changes.end(), [&](const TreeChange& change) {
      return glob.matches(change.path) || glob.matches(change.base_path);
    });
    if (!is_used) return Error(Code::kNotFound, fmt::format("no changes match {}", quote(pattern)));
  }
  return Ok{};
}

}  // namespace warren
