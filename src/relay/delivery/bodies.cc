#include "relay/delivery/bodies.h"

#include <algorithm>

namespace warren::relay {
namespace {

constexpr std::size_t kBodiesAtOnce = 64;  // dropped by a round, so that it stays short;
constexpr std::size_t kBodiesParts = 8;    // or this fraction of the queue, so that it does not grow

}  // namespace

void Bodies::clear() {
  needed_.clear();
  unneeded_.clear();
}

void Bodies::release(std::int64_t stamp) {
  auto body = needed_.find(stamp);
  if (body == needed_.end() || --body->second > 0) return;
  unneeded_.push_back(stamp);
  needed_.erase(body);
}

std::size_t Bodies::count_to_drop() const {
  return std::min(unneeded_.size(), std::max(kBodiesAtOnce, unneeded_.size() / kBodiesParts));
}

}  // namespace warren::relay
