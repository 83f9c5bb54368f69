#include "agent/record/anchorer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "agent/record/audit_trail.h"

namespace warren {

Result<AnchorOptions> checked_anchor(AnchorOptions options) {
  if (options.every < AnchorOptions::kShortest) {
    return Error(Code::kInvalid, "the shortest time between two anchors is 1s");
  }
  std::optional<std::string> path = host_path_of_anchor(options.address);
  if (!path) return options;
  std::error_code failed;
  options.address = "file:" + std::filesystem::absolute(*path, failed).string();
  if (failed) return Error(Code::kNotFound, "the working directory no longer exists");
  return options;
}

Anchorer::Anchorer(Agent& agent, std::optional<AnchorOptions> options, Clock& clock,
                   std::chrono::milliseconds note_every)
    : agent_(agent), options_(std::move(options)), clock_(clock), note_every_(note_every) {}

Result<std::unique_ptr<Anchorer>> Anchorer::start(Agent& agent, std::optional<AnchorOptions> options, Clock& clock,
                                                  std::chrono::milliseconds note_every) {
  if (!options && !agent.store().audit().is_enabled()) return std::unique_ptr<Anchorer>();
  if (options && agent.unrecorded()) return Error(Code::kUnavailable, "--anchor: " + *agent.unrecorded());
  std::unique_ptr<Anchorer> made(new Anchorer(agent, std::move(options), clock, note_every));
  if (made->options_) WARREN_TRY(check_anchor(agent, made->options_->address, clock));
  WARREN_TRY(made->anchor_news());
  made->thread_ = std::thread([it = made.get()] { it->work(); });
  return made;
}

Anchorer::~Anchorer() { end_thread(); }

void Anchorer::end_thread() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Anchorer::work() {
  using std::chrono::steady_clock;
  steady_clock::time_point next_note = steady_clock::now() + note_every_;
  steady_clock::time_point next_anchor =
      options_ ? steady_clock::now() + options_->every : steady_clock::time_point::max();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_until(lock, std::min(next_note, next_anchor), [this] { return is_ending_; })) {
    lock.unlock();
    steady_clock::time_point now = steady_clock::now();
    if (now >= next_note) {
      note_news().ignore("it is tried again, and when the agent is closed");
      next_note = now + note_every_;
    }
    if (now >= next_anchor) {
      anchor_news().ignore("it is tried again, and stop() returns what does not succeed at the end");
      next_anchor = now + options_->every;
    }
    lock.lock();
  }
}

Status Anchorer::note_news() {
  std::int64_t last = WARREN_TRY(last_audit_row(agent_));
  if (last == noted_) return Ok{};
  WARREN_TRY(agent_.note_trail());
  noted_ = last;
  return Ok{};
}

Status Anchorer::anchor_news() {
  if (!options_) return Ok{};
  WARREN_TRY(agent_.store().database().end_batch());
  std::int64_t last = WARREN_TRY(last_audit_row(agent_));
  if (last == anchored_) return Ok{};
  WARREN_TRY(put_anchor(agent_, options_->address, clock_));
  anchored_ = last;
  return Ok{};
}

Status Anchorer::stop() {
  end_thread();
  if (!options_) return Ok{};
  WARREN_TRY(agent_.store().audit().flush());
  return anchor_news();
}

}  // namespace warren
