// KIND continuity: agents save a state in the ledger, and load it in a later life.
#pragma once

#include "base/result.h"
#include "relay/context.h"
#include "relay/delivery/notices.h"
#include "relay/plan.h"
#include "relay/protocol/spawn_request.h"

namespace warren::relay {

class Continuity {
 public:
  Continuity(const Context& all, Notices& notices)
      : config_(all.config), clock_(all.clock), ledger_(all.ledger), notices_(notices) {}

  Status plan(Plan& plan, const Outgoing& outgoing);

 private:
  Status plan_save(Plan& plan, const Outgoing& outgoing, ContinuityRequest request);
  Status plan_load(Plan& plan, const Outgoing& outgoing, const ContinuityRequest& request);

  const Config& config_;
  Clock& clock_;
  Ledger& ledger_;
  Notices& notices_;
};

}  // namespace warren::relay
