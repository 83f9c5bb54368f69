#include "changes/apply/left_node.h"

#include <fmt/format.h>

#include "base/path.h"

namespace warren {

std::string describe(const LeftNode& node) {
  std::string text = fmt::format("{}: {}", quote(node.path), node.why);
  return node.aside.empty() ? text : fmt::format("{}; the other version is {} in the base", text, quote(node.aside));
}

std::string describe(const std::vector<LeftNode>& nodes) {
  std::string text;
  for (const LeftNode& node : nodes) text += (text.empty() ? "" : ", ") + describe(node);
  return text;
}

}  // namespace warren
