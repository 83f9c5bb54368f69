// Deliveries that other relays recorded for agents of this one, in a ledger that they share.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/result.h"
#include "relay/attachments/attachment_courier.h"
#include "relay/context.h"
#include "relay/delivery/notices.h"
#include "relay/delivery/stamps.h"
#include "relay/delivery/waiting_recipients.h"
#include "relay/plan.h"

namespace warren::relay {

// One thread. Does nothing if the ledger is not shared.
class RoutedDeliveries {
 public:
  struct Uses {
    AttachmentCourier& courier;
    Notices& notices;
    Stamps& stamps;
    WaitingRecipients& waiting;
  };
  RoutedDeliveries(const Context& all, const Uses& uses)
      : config_(all.config),
        clock_(all.clock),
        router_(all.router),
        ledger_(all.ledger),
        courier_(uses.courier),
        notices_(uses.notices),
        stamps_(uses.stamps),
        waiting_(uses.waiting) {}

  // What the shared ledger has notified us of; without a notification, everything may have changed every 5 s.
  struct Heard {
    bool is_for_us = false;  // there may be deliveries and requests for this relay
    bool concerns_agents = false;
  };
  Heard hear();
  std::int64_t at_ns() const { return at_ns_; }  // monotonic: when to call hear() without a notification

  void want() { is_wanted_ = ledger_.homes() != nullptr; }  // plan() looks for some
  bool is_wanted() const { return is_wanted_; }
  void resume() { waiting_for_files_.clear(); }  // files that some waited for may be here

  // Claims some in the round's transaction, which it begins if there are any.
  Status plan(Plan& plan);

 private:
  std::set<std::string> list_passed_over() const;
  Status plan_one(Plan& plan, RoutedDelivery arrival);

  const Config& config_;
  Clock& clock_;
  Router& router_;
  Ledger& ledger_;
  AttachmentCourier& courier_;
  Notices& notices_;
  Stamps& stamps_;
  WaitingRecipients& waiting_;
  bool is_wanted_ = false;
  std::int64_t at_ns_ = INT64_MAX;
  std::set<std::string> waiting_for_files_;  // SENDER>RECIPIENT: their attachments are being fetched
  std::set<std::string> passed_over_;        // when deliveries were last claimed; recipients as well
};

}  // namespace warren::relay
