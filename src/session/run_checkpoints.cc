#include "session/run_checkpoints.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "session/served_agent.h"

namespace warren {
namespace {

constexpr int kToolCallsMs = 100;  // between two looks for tool calls that have ended
constexpr std::int64_t kLongestWaitMs = 30'000;

}  // namespace

Result<std::unique_ptr<RunCheckpoints>> RunCheckpoints::start(Agent& agent, MountedState* mounted, When when) {
  std::unique_ptr<RunCheckpoints> started(new RunCheckpoints(agent, mounted, when));
  started->first_change_ = WARREN_TRY(agent.change_mark());
  if (when.after_tool_calls) started->calls_ended_ = WARREN_TRY(agent.tools().count_ended());
  if (when.every) started->next_ = std::chrono::steady_clock::now() + *when.every;
  return started;
}

int RunCheckpoints::patience_ms(int otherwise) const {
  int patience = otherwise;
  auto shorten = [&](int wait) { patience = patience < 0 ? wait : std::min(patience, wait); };
  if (next_) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(*next_ - std::chrono::steady_clock::now()).count();
    shorten(static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongestWaitMs)));
  }
  if (when_.after_tool_calls) shorten(kToolCallsMs);
  return patience;
}

void RunCheckpoints::take_due() {
  take_after_interval();
  take_after_tool_calls();
}

void RunCheckpoints::take(std::string_view cause) {
  std::vector<std::string> problems;
  Result<Checkpoint> taken =
      take_automatic_checkpoint(agent_, {.name = cause, .cause = cause, .mounted = mounted_, .problems = &problems});
  if (!problems.empty()) mounts_left_out_ = problems.back();
  if (taken.ok()) return;
  ++missed_;
  error_ = std::move(taken).take_error();
}

// The next one is tried after the same time, whether or not this one could be taken.
void RunCheckpoints::take_after_interval() {
  auto now = std::chrono::steady_clock::now();
  if (!next_ || now < *next_) return;
  next_ = now + *when_.every;
  Result<Agent::ChangeMark> mark = agent_.change_mark();
  bool is_unchanged = !mark.ok() || mark->everything == first_change_.everything;
  bool have_mounts = have_mounts_changed();
  if (is_unchanged && !have_mounts) return;
  Result<bool> has_changed = has_changed_since_checkpoint(agent_);
  if (has_changed.ok() && *has_changed) take("interval");
}

void RunCheckpoints::take_after_tool_calls() {
  if (!when_.after_tool_calls) return;
  Result<std::uint64_t> ended = agent_.tools().count_ended();
  if (!ended.ok() || *ended == calls_ended_) return;
  calls_ended_ = *ended;
  take("tool-call");
}

// Looks at working memory and at what is mounted, whose changes nobody records.
bool RunCheckpoints::have_mounts_changed() {
  if (mounted_ == nullptr) return false;
  Result<MountedState::Copied> copied = mounted_->copy_in(MountedState::Unreachable::kLeaveOut);
  return copied.ok() && copied->has_changed;
}

Status RunCheckpoints::with_missed(Status ended) const {
  if (!mounts_left_out_.empty()) {
    ended = with_losses(std::move(ended), {fmt::format("checkpoints lack a mount: {}", mounts_left_out_)});
  }
  if (!error_) return ended;
  std::string what = fmt::format("{} checkpoint{} could not be taken, the last because: {}", missed_,
                                 missed_ == 1 ? "" : "s", error_->message());
  if (ended.ok()) return Error(error_->code(), std::move(what), error_->hint());
  return with_losses(std::move(ended), {std::move(what)});
}

}  // namespace warren
