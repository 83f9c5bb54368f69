#include "vfs/grants.h"

#include <algorithm>

namespace warren {
namespace {

bool is_strictly_below(std::string_view path, std::string_view top) {
  if (top == "/") return path != "/";
  return path.starts_with(top) && path.size() > top.size() && path[top.size()] == '/';
}

}  // namespace

Rights Grants::at(std::string_view path) const {
  Rights rights;
  for (const Grant& grant : all_) {
    if (path == grant.path || is_strictly_below(path, grant.path)) rights = rights | grant.rights;
  }
  return rights;
}

bool Grants::leads_through(std::string_view dir) const {
  return std::ranges::any_of(all_, [&](const Grant& grant) { return is_strictly_below(grant.path, dir); });
}

}  // namespace warren
