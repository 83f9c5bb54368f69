// Operations that make a round fail.
//
// A round with an operation that cannot be recorded fails as a whole, and would do so for ever. So the operations of a
// failed round become suspects: each is tried alone, and one that fails again is given up, with its error. Between two
// trials there is a round for everything else.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "relay/plan.h"

namespace warren::relay {

// One thread.
class OperationTrials {
 public:
  bool has_suspects() const { return !suspects_.empty(); }
  std::int64_t at_ns() const { return at_ns_; }  // monotonic: when the next trial is due

  // Whether the round that begins now is a trial. If so, is_tried() names its operation.
  bool begin(std::int64_t now_ns);
  bool is_tried(std::int64_t operation) const { return operation == tried_; }

  // A round with operations failed. A trial's operation is given up if the ledger refused it; anything else (a lack of
  // space, of descriptors, of the database) says nothing about it.
  void note_failure(const Plan& plan, const Error& why, bool is_ledger_lost);
  void note_recorded(std::int64_t operation);
  int failures() const { return failures_; }  // trials in a row whose failure says nothing
  void pause_until(std::int64_t ns) { at_ns_ = failures_ == 0 ? 0 : ns; }

  const std::string* find_given_up(std::int64_t operation) const;  // why; null: it was not

 private:
  std::set<std::int64_t> suspects_;
  std::map<std::int64_t, std::string> given_up_;  // until that is recorded
  std::int64_t tried_ = 0;
  std::int64_t at_ns_ = 0;
  int failures_ = 0;
  bool was_trial_ = false;  // the last round
};

}  // namespace warren::relay
