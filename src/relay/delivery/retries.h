// Recipients to whom a delivery failed. Until it is tried again, later ones to them wait, so that order is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace warren::relay {

// How long to wait before the next attempt: 100 ms, 200 ms, … 30 s, less a random part of up to a half.
std::int64_t backoff_ms(int attempts, std::uint64_t random);

// One thread.
class Retries {
 public:
  Retries(Clock& clock, std::mt19937_64& random) : clock_(clock), random_(random) {}

  bool is_failing(std::string_view recipient) const { return failing_.contains(recipient); }
  // An attempt failed. Returns the wall time, in milliseconds, of the next one.
  std::int64_t note_failure(const std::string& recipient, int attempts);
  void keep_failing(const std::string& recipient, std::int64_t next_ms) { failing_.try_emplace(recipient, next_ms); }
  void forget(const std::string& recipient) { failing_.erase(recipient); }

  bool is_due() const { return clock_.monotonic_ns() >= at_ns_; }
  std::int64_t at_ns() const { return at_ns_; }  // monotonic: when the next attempt is due; INT64_MAX: there is none
  void set_next(std::int64_t next_ms);           // wall time; INT64_MAX: there is none
  void start_over();                             // the ledger was read again: look at once

 private:
  Clock& clock_;
  std::mt19937_64& random_;
  std::map<std::string, std::int64_t, std::less<>> failing_;  // recipient → wall time of the next attempt, in ms
  std::int64_t at_ns_ = INT64_MAX;
};

}  // namespace warren::relay
