#include "relay/delivery/arrivals.h"

#include <utility>

#include "relay/protocol/names.h"

namespace warren::relay {

void Arrivals::add(MessageRow message, Delivery delivery) {
  std::int64_t stamp = stamp_of(delivery);
  remove(stamp);
  bytes_ += message.size;
  stamps_.insert_or_assign(message.id, stamp);
  all_.emplace(stamp, Arrival{std::move(message), std::move(delivery)});
}

void Arrivals::remove(std::int64_t stamp) {
  auto found = all_.extract(stamp);
  if (!found) return;
  bytes_ -= found.mapped().message.size;
  stamps_.erase(found.mapped().message.id);
}

void Arrivals::clear() {
  all_.clear();
  stamps_.clear();
  bytes_ = 0;
}

const Arrival* Arrivals::find(std::int64_t stamp) const {
  auto found = all_.find(stamp);
  return found == all_.end() ? nullptr : &found->second;
}

const Arrival* Arrivals::find_message(std::string_view id) const {
  auto found = stamps_.find(std::string(id));
  return found == stamps_.end() ? nullptr : find(found->second);
}

const Arrival* Arrivals::find_in_inbox(std::string_view recipient, std::string_view inbox_name) const {
  const Arrival* found = find(timestamp_of(inbox_name).value_or(0));
  bool is_it = found != nullptr && found->delivery.recipient == recipient && found->delivery.inbox_name == inbox_name;
  return is_it ? found : nullptr;
}

}  // namespace warren::relay
