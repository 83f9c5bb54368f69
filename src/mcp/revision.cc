#include "mcp/revision.h"

#include <array>

namespace warren::mcp {
namespace {

constexpr std::array<std::string_view, 5> kNames{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"};

}  // namespace

std::string_view name_of(Revision revision) { return kNames.at(static_cast<std::size_t>(revision)); }

std::optional<Revision> find_revision(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Revision>(i);
  }
  return std::nullopt;
}

Json stateless_revisions() { return Json::array({name_of(Revision::k2026_07_28)}); }

const Json& meta_of(const Json& params) {
  static const Json kNothing = Json::object();
  auto found = params.find("_meta");
  return found != params.end() && found->is_object() ? *found : kNothing;
}

}  // namespace warren::mcp
