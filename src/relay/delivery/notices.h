// Messages from the relay itself: answers, receipts and reports.
#pragma once

#include <string_view>

#include "base/result.h"
#include "relay/context.h"
#include "relay/plan.h"

namespace warren::relay {

// Adds messages to the plan of a round. They are never answered, so that there are no loops.
class Notices {
 public:
  explicit Notices(const Context& all) : config_(all.config), clock_(all.clock), router_(all.router) {}

  void notify(Plan& plan, std::string_view agent, Message message);
  void nack(Plan& plan, std::string_view agent, std::string_view reference, const Error& why);
  // To the sender: the delivery's new state.
  void report(Plan& plan, const Delivery& delivery, std::string_view state, std::string_view error);

 private:
  const Config& config_;
  Clock& clock_;
  const Router& router_;
};

}  // namespace warren::relay
