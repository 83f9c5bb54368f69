#include "relay/plan.h"

namespace warren::relay {

bool Plan::must_be_durable() const {
  return !supervision.is_empty() || !operations.empty() || !closed.empty() || !restaged.empty();
}

bool Plan::is_empty() const {
  return messages.empty() && restaged.empty() && rerouted.empty() && retried.empty() && changes.empty() &&
         acks.empty() && filings.empty() && located.empty() && agents.empty() && subscriptions.empty() &&
         closed.empty() && operations.empty() && supervision.is_empty();
}

}  // namespace warren::relay
