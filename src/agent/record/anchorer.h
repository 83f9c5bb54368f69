// Keeps the audit trail of an open agent provable, for a process that hosts it for long (a mount or a run): notes its
// end every minute (agent/record/audit_note.h), so that a process that is killed leaves a note too, and anchors it at
// intervals if it was asked to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

struct AnchorOptions {
  std::string address;  // see put_anchor (agent/record/audit_trail.h); a path of the host is absolute
  std::chrono::milliseconds every = kDefaultEvery;

  static constexpr std::chrono::milliseconds kDefaultEvery{600'000};
  static constexpr std::chrono::milliseconds kShortest{1000};
};

// Makes a path of the host in an address absolute, because a server has another working directory. kInvalid if the
// interval is too short.
Result<AnchorOptions> checked_anchor(AnchorOptions options);

// Has a thread. The agent and the clock outlive it.
class Anchorer {
 public:
  static constexpr std::chrono::milliseconds kNoteEvery{60'000};

  // Fails if the address cannot be used, so that a mistake is found at once. A place that cannot be reached later is
  // tried again after the interval.
  // Null if nothing is recorded and nothing is to be anchored.
  static Result<std::unique_ptr<Anchorer>> start(Agent& agent, std::optional<AnchorOptions> options, Clock& clock,
                                                 std::chrono::milliseconds note_every = kNoteEvery);
  ~Anchorer();
  Anchorer(const Anchorer&) = delete;
  Anchorer& operator=(const Anchorer&) = delete;

  // Anchors the end of the trail, after the last change and before the agent is closed. Returns why that failed.
  Status stop();

 private:
  Anchorer(Agent& agent, std::optional<AnchorOptions> options, Clock& clock, std::chrono::milliseconds note_every);
  void work();
  Status note_news();
  Status anchor_news();
  void end_thread();

  Agent& agent_;
  const std::optional<AnchorOptions> options_;
  Clock& clock_;
  const std::chrono::milliseconds note_every_;
  std::int64_t anchored_ = 0;  // the number of the last row
  std::int64_t noted_ = 0;     // the same
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace warren
