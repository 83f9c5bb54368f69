#include "relay/operation_trials.h"

namespace warren::relay {
namespace {

bool is_refusal(Code code) {
  return code == Code::kConflict || code == Code::kInvalid || code == Code::kExists || code == Code::kTooLarge;
}

}  // namespace

bool OperationTrials::begin(std::int64_t now_ns) {
  was_trial_ = !suspects_.empty() && now_ns >= at_ns_ && !was_trial_;
  if (!was_trial_) return false;
  tried_ = *suspects_.begin();
  suspects_.erase(suspects_.begin());
  return true;
}

void OperationTrials::note_failure(const Plan& plan, const Error& why, bool is_ledger_lost) {
  bool is_refused = is_refusal(why.code()) && !is_ledger_lost;
  if (plan.is_trial) failures_ = is_refused ? 0 : failures_ + 1;
  if (plan.is_trial && !is_refused) suspects_.insert(tried_);
  for (const OperationEnd& one : plan.operations) {
    if (!one.error.empty() || !is_refused) continue;  // giving one up changes nothing that could fail
    if (plan.is_trial) given_up_.emplace(one.id, why.message());
    else suspects_.insert(one.id);
  }
}

void OperationTrials::note_recorded(std::int64_t operation) {
  given_up_.erase(operation);
  if (operation == tried_) failures_ = 0;
}

const std::string* OperationTrials::find_given_up(std::int64_t operation) const {
  auto found = given_up_.find(operation);
  return found == given_up_.end() ? nullptr : &found->second;
}

}  // namespace warren::relay
