// An in-memory copy of the ledger's arrivals: messages to one recipient whose outcome is not recorded yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "relay/ledger/ledger.h"

namespace warren::relay {

struct Arrival {
  MessageRow message;
  Delivery delivery;
};

class Arrivals {
 public:
  void add(MessageRow message, Delivery delivery);
  void remove(std::int64_t stamp);  // when it is entered
  void clear();

  const Arrival* find(std::int64_t stamp) const;
  const Arrival* find_message(std::string_view id) const;
  const Arrival* find_in_inbox(std::string_view recipient, std::string_view inbox_name) const;
  std::uint64_t bytes() const { return bytes_; }  // of the messages

 private:
  std::unordered_map<std::int64_t, Arrival> all_;
  std::unordered_map<std::string, std::int64_t> stamps_;  // by message
  std::uint64_t bytes_ = 0;
};

}  // namespace warren::relay
