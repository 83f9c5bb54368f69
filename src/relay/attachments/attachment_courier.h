// Sees to it that the attachments of a message are where its recipients look for them, before it is recorded.
//
// Usually they are: in this relay's store. An agent that cannot reach the store gets copies, and the files of such a
// sender are taken from its outbox. A message that goes to another relay needs them in the shared ledger.
#pragma once

#include <string>

#include "base/result.h"
#include "relay/attachments/attachments.h"
#include "relay/context.h"
#include "relay/plan.h"
#include "relay/spawn/lives.h"

namespace warren::relay {

// One thread. All functions: kWaits, call again once Attachments::take_hashed() returns the waiter.
class AttachmentCourier {
 public:
  AttachmentCourier(const Context& all, Attachments& attachments, const Lives& lives)
      : root_(all.root), router_(all.router), ledger_(all.ledger), attachments_(attachments), lives_(lives) {}

  // Takes and verifies the attachments of a new message; its sender is the waiter.
  Result<Readiness> take(const Message& message, const std::string& sender);
  // Brings them to all recipients of a message that is routed now.
  Result<Readiness> bring(const Message& message, const std::string& sender, const std::string& waiter);
  // For a delivery that came from another home or waited. The waiter is "".
  Result<Readiness> bring_again(Plan& plan, const Delivery& delivery, const Message& message);

 private:
  const Root& root_;
  const Router& router_;
  Ledger& ledger_;
  Attachments& attachments_;
  const Lives& lives_;
};

}  // namespace warren::relay
