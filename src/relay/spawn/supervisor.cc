#include "relay/spawn/supervisor.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "base/path.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kMinuteNs = 60'000'000'000;
constexpr int kChainSteps = 256;  // the chain may be circular, if the lead restarts an ancestor

std::int64_t ns_of(std::chrono::milliseconds time) { return std::chrono::nanoseconds(time).count(); }

}  // namespace

void Supervisor::load(std::vector<Life> lives) {
  for (Life& life : lives) {
    if (life.state == LifeState::kAsked) {
      asked_[life.message_id] = std::move(life);
      continue;
    }
    Supervised& one = supervised_[life.name];
    one.life = std::move(life);
    if (one.life.has_process()) adopt(one);
  }
}

void Supervisor::adopt(Supervised& one) {
  one.child = Child::adopt(one.life.process);
  if (one.child) watched_.insert(one.life.name);
  else ends_.push_back({one.life.name, {}});
  one.timeout_at_ns = timeout_at_ns(one.life);
  if (one.life.state == LifeState::kReleasing) release(one);
}

void Supervisor::reconcile(std::vector<Life> lives) {
  asked_.clear();
  for (Life& life : lives) {
    const Life* known = find(life.name);
    bool is_same = known != nullptr && known->number == life.number && known->state == life.state;
    if (life.state == LifeState::kAsked) {
      asked_[life.message_id] = std::move(life);
    } else if (!is_same) {
      bool is_same_process = known != nullptr && known->process == life.process;
      Supervised& one = supervised_[life.name];
      if (is_same_process) keep(std::move(life));
      else one.life = std::move(life);
      if (!is_same_process && one.life.has_process()) adopt(one);
    }
  }
}

const Life* Supervisor::find(std::string_view name) const {
  auto found = supervised_.find(name);
  return found == supervised_.end() ? nullptr : &found->second.life;
}

const Life* Supervisor::find_asked(std::string_view message_id) const {
  auto found = asked_.find(message_id);
  return found == asked_.end() ? nullptr : &found->second;
}

bool Supervisor::is_asked(std::string_view name) const {
  return std::any_of(asked_.begin(), asked_.end(), [&](const auto& one) { return one.second.name == name; });
}

bool Supervisor::has_process(std::string_view name) const {
  const Life* life = find(name);
  return life != nullptr && life->has_process();
}

bool Supervisor::has_ended(std::string_view name) const {
  const Life* life = find(name);
  return life != nullptr && !life->has_process();
}

bool Supervisor::was_released(std::string_view name) const {
  const Life* life = find(name);
  return life != nullptr && life->state == LifeState::kReleased;
}

std::string Supervisor::find_spawner(std::string_view name) const {
  const Life* life = find(name);
  return life == nullptr ? "" : life->spawner;
}

std::int64_t Supervisor::depth_of(std::string_view name) const {
  const Life* life = find(name);
  return life == nullptr ? 0 : life->depth;
}

bool Supervisor::is_ancestor(std::string_view ancestor, std::string_view name) const {
  std::string above = find_spawner(name);
  for (int steps = 0; !above.empty() && steps < kChainSteps; ++steps) {
    if (above == ancestor) return true;
    above = find_spawner(above);
  }
  return false;
}

std::vector<std::string> Supervisor::list_descendants(std::string_view name) const {
  std::vector<std::string> found;
  for (const auto& [other, one] : supervised_) {
    if (other != name && one.life.has_process() && is_ancestor(name, other)) found.push_back(other);
  }
  return found;
}

Status Supervisor::check_limits(std::string_view spawner, const std::vector<Life>& planned) const {
  std::int64_t alive = static_cast<std::int64_t>(asked_.size());
  for (const auto& [name, one] : supervised_) alive += one.life.has_process() ? 1 : 0;
  std::int64_t lately = 0;
  for (const Life& life : planned) {
    if (life.state != LifeState::kAsked) continue;
    ++alive;
    lately += life.spawner == spawner ? 1 : 0;
  }
  if (alive >= config_.count_max) {
    return Error(Code::kLimit, fmt::format("{} agents are already running, which is the limit", config_.count_max));
  }
  std::int64_t depth = depth_of(spawner) + 1;
  if (depth > config_.depth_max) {
    return Error(Code::kLimit, fmt::format("an agent at depth {} must not start others", depth - 1));
  }
  auto recent = recent_.find(spawner);
  if (recent != recent_.end()) {
    std::int64_t since = clock_.monotonic_ns() - kMinuteNs;
    lately += std::count_if(recent->second.begin(), recent->second.end(), [&](std::int64_t at) { return at > since; });
  }
  if (lately >= config_.per_minute) {
    return Error(Code::kLimit, fmt::format("the limit of {} agents per minute is reached", config_.per_minute));
  }
  return Ok{};
}

std::int64_t Supervisor::timeout_at_ns(const Life& life) const {
  auto cli = config_.clis.find(life.cli);
  if (cli == config_.clis.end() || cli->second.timeout.count() == 0) return INT64_MAX;
  std::int64_t ran_ns = std::max<std::int64_t>(0, clock_.now_us() - life.started_at_us) * 1000;
  return clock_.monotonic_ns() + std::max<std::int64_t>(0, ns_of(cli->second.timeout) - ran_ns);
}

void Supervisor::release(Supervised& one) {
  one.stage = Stage::kNotice;
  one.next_at_ns = clock_.monotonic_ns() + ns_of(config_.notice);
}

void Supervisor::apply(const std::vector<Life>& lives) {
  for (const Life& life : lives) {
    if (life.state == LifeState::kAsked) {
      std::deque<std::int64_t>& times = recent_[life.spawner];
      times.push_back(clock_.monotonic_ns());
      while (times.size() > static_cast<std::size_t>(config_.per_minute)) times.pop_front();
      asked_[life.message_id] = life;
      continue;
    }
    asked_.erase(life.message_id);
    if (life.state != LifeState::kFailed) keep(life);
  }
}

void Supervisor::keep(Life life) {
  Supervised& one = supervised_[life.name];
  bool is_new_state = one.life.state != life.state;
  one.life = std::move(life);
  if (!one.life.has_process()) {
    watched_.erase(one.life.name);
    one.child.reset();
    one.stage = Stage::kNone;
    one.next_at_ns = one.timeout_at_ns = one.orphan_at_ns = INT64_MAX;
  } else if (one.life.state == LifeState::kReleasing && is_new_state) {
    release(one);
  } else if (one.life.state == LifeState::kRunning) {
    one.timeout_at_ns = timeout_at_ns(one.life);
  }
}

void Supervisor::open_gates(std::vector<Child> children) {
  for (Child& child : children) {
    for (auto& [name, one] : supervised_) {
      if (!one.life.has_process() || !(one.life.process == child.process())) continue;
      one.child.emplace(std::move(child));
      one.child->open_gate();
      watched_.insert(name);
      break;
    }
  }
}

void Supervisor::note_saved(std::string_view name) {
  auto found = supervised_.find(name);
  if (found != supervised_.end() && found->second.stage == Stage::kNotice) found->second.next_at_ns = 0;
}

void Supervisor::step(Supervised& one, std::int64_t now_ns) {
  if (one.next_at_ns <= now_ns && one.stage == Stage::kNotice) {
    one.child->signal_group(SIGTERM);
    one.stage = Stage::kTerminated;
    one.next_at_ns = now_ns + ns_of(config_.grace);
  } else if (one.next_at_ns <= now_ns && one.stage == Stage::kTerminated) {
    one.child->signal_group(SIGKILL);
    one.stage = Stage::kKilled;
    one.next_at_ns = INT64_MAX;
  }
  if (one.timeout_at_ns <= now_ns) note_overdue(one.life.name, "its time limit was reached");
  if (one.orphan_at_ns <= now_ns) note_overdue(one.life.name, "none of its ancestors is alive");
  if (one.timeout_at_ns <= now_ns) one.timeout_at_ns = INT64_MAX;
  if (one.orphan_at_ns <= now_ns) one.orphan_at_ns = INT64_MAX;
}

void Supervisor::poll() {
  std::int64_t now_ns = clock_.monotonic_ns();
  for (auto at = watched_.begin(); at != watched_.end();) {
    Supervised& one = supervised_.at(*at);
    if (std::optional<ChildEnd> end = one.child->take_end()) {
      ends_.push_back({*at, *end});
      one.child.reset();
      at = watched_.erase(at);
    } else {
      step(one, now_ns);
      ++at;
    }
  }
}

void Supervisor::note_overdue(std::string_view name, std::string_view why) {
  const Life* life = find(name);
  bool is_known = std::any_of(overdue_.begin(), overdue_.end(), [&](const Overdue& one) { return one.name == name; });
  if (life == nullptr || life->state != LifeState::kRunning || is_known) return;
  overdue_.push_back({std::string(name), std::string(why)});
}

void Supervisor::note_superior(std::string_view name, bool has_superior) {
  auto found = supervised_.find(name);
  if (found == supervised_.end() || config_.orphan.count() == 0) return;
  std::int64_t& at = found->second.orphan_at_ns;
  if (has_superior) at = INT64_MAX;
  else if (at == INT64_MAX) at = clock_.monotonic_ns() + ns_of(config_.orphan);
}

void Supervisor::forget_reported(std::size_t ends, std::size_t overdues) {
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(ends));
  overdue_.erase(overdue_.begin(), overdue_.begin() + static_cast<std::ptrdiff_t>(overdues));
}

std::vector<std::string> Supervisor::list_running() const {
  std::vector<std::string> found;
  for (const auto& [name, one] : supervised_) {
    if (one.life.state == LifeState::kRunning) found.push_back(name);
  }
  return found;
}

void Supervisor::add_pollfds(std::vector<pollfd>& out) const {
  for (const std::string& name : watched_) out.push_back({supervised_.at(name).child->pidfd(), POLLIN, 0});
}

std::int64_t Supervisor::wake_at_ns() const {
  if (!ends_.empty() || !overdue_.empty()) return 0;
  std::int64_t at = INT64_MAX;
  for (const std::string& name : watched_) {
    const Supervised& one = supervised_.at(name);
    at = std::min({at, one.next_at_ns, one.timeout_at_ns, one.orphan_at_ns});
  }
  return at;
}

}  // namespace warren::relay
