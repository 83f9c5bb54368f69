#include "tools/tool_beat.h"

#include <system_error>

namespace warren {

ToolBeat::ToolBeat(ToolContext& context, std::string what, std::chrono::milliseconds interval)
    : context_(context), what_(std::move(what)), report_(context.progress) {
  if (!report_) return;
  context_.progress = [this](const ToolProgress& at) {
    std::lock_guard lock(mutex_);
    reports_itself_ = true;
    report_(at);
  };
  try {
    thread_ = std::thread([this, interval] { beat(interval); });
  } catch (const std::system_error&) {  // no thread can be started: the call is made without reports
  }
}

ToolBeat::~ToolBeat() {
  if (!report_) return;
  {
    std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  context_.progress = std::move(report_);
}

// The lock is held while a report is sent, so that none comes after the destructor has begun. Sending does not block
// for ever (Outlet).
void ToolBeat::beat(std::chrono::milliseconds interval) {
  auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (auto next = began + interval; !changed_.wait_until(lock, next, [this] { return has_ended_; });
       next += interval) {
    if (reports_itself_) return;
    std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - began;
    report_({.done = so_far.count(), .total = {}, .message = what_});
  }
}

}  // namespace warren
