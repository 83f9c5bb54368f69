// A node that a rollback left as it is, because somebody else has changed it or taken its place, or because we may not
// change it.
#pragma once

#include <string>
#include <vector>

namespace warren {

struct LeftNode {
  std::string path;
  std::string why;    // and what was done: "it was changed meanwhile, so it was kept"
  std::string aside;  // the other version, by its path in the base; "" if there is none

  bool operator==(const LeftNode&) const = default;
};

// "'/a': it was changed meanwhile, so it was kept; the other version is '/.warren-apply-…/7' in the base"
std::string describe(const LeftNode& node);
std::string describe(const std::vector<LeftNode>& nodes);  // all of them, in one line

}  // namespace warren
