// Progress of a call that cannot say how far it is: how long it has run, now and then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "tools/tool.h"

namespace warren {

inline constexpr std::chrono::milliseconds kToolBeat{1000};

// As long as it lives, the context's reports go through it, and one of its own is sent after each `interval`: the
// seconds so far. Once the tool has reported by itself (grep counts files), it sends no more of its own. Without
// anybody who wants reports it does nothing. The context outlives it.
class ToolBeat {
 public:
  ToolBeat(ToolContext& context, std::string what, std::chrono::milliseconds interval = kToolBeat);
  ~ToolBeat();
  ToolBeat(const ToolBeat&) = delete;
  ToolBeat& operator=(const ToolBeat&) = delete;

 private:
  void beat(std::chrono::milliseconds interval);

  ToolContext& context_;
  std::string what_;
  std::function<void(const ToolProgress&)> report_;  // the context's own
  std::mutex mutex_;                                 // one report at a time, and what follows
  std::condition_variable changed_;
  bool has_ended_ = false;
  bool reports_itself_ = false;
  std::thread thread_;
};

}  // namespace warren
