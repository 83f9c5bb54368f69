#include "relay/delivery/retries.h"

#include <algorithm>

namespace warren::relay {
namespace {

constexpr std::int64_t kBackoffMs = 100;
constexpr std::int64_t kBackoffMaxMs = 30'000;
constexpr int kBackoffSteps = 9;  // 100 ms doubled this often exceeds the maximum

}  // namespace

std::int64_t backoff_ms(int attempts, std::uint64_t random) {
  std::int64_t whole = std::min(kBackoffMaxMs, kBackoffMs << std::min(attempts, kBackoffSteps));
  return whole / 2 + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(whole / 2 + 1));
}

std::int64_t Retries::note_failure(const std::string& recipient, int attempts) {
  std::int64_t now = clock_.now_us() / 1000;
  auto known = failing_.find(recipient);
  std::int64_t next = known != failing_.end() ? known->second : now + backoff_ms(attempts, random_());
  failing_.insert_or_assign(recipient, next);
  std::int64_t wait_ms = std::clamp<std::int64_t>(next - now, 0, kBackoffMaxMs);
  at_ns_ = std::min(at_ns_, clock_.monotonic_ns() + wait_ms * 1'000'000);
  return next;
}

void Retries::set_next(std::int64_t next_ms) {
  std::int64_t now = clock_.now_us() / 1000;
  at_ns_ = next_ms == INT64_MAX ? INT64_MAX : clock_.monotonic_ns() + (next_ms - now) * 1'000'000;
}

void Retries::start_over() {
  failing_.clear();
  at_ns_ = 0;
}

}  // namespace warren::relay
