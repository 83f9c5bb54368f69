#include "tools/tool_beat.h"

#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "tools/tool_case_testing.h"

namespace warren {
namespace {

class ToolBeatTest : public ToolCase {};

// Reports, for a test that waits for them.
class Reports {
 public:
  std::function<void(const ToolProgress&)> taker() {
    return [this](const ToolProgress& at) {
      std::lock_guard lock(mutex_);
      all_.push_back(at);
      changed_.notify_all();
    };
  }
  std::vector<ToolProgress> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ToolProgress> all_;
};

TEST_F(ToolBeatTest, ALongCallReportsThatItGoesOn) {
  Reports reports;
  ToolContext used = context();
  used.progress = reports.taker();
  std::vector<ToolProgress> seen;
  {
    ToolBeat beat(used, "Take a checkpoint", std::chrono::milliseconds(1));
    seen = reports.wait_for(3);
  }
  EXPECT_EQ(seen[0].message, "Take a checkpoint");
  EXPECT_GT(seen[0].done, 0);
  EXPECT_LT(seen[0].done, seen[1].done);
  EXPECT_LT(seen[1].done, seen[2].done);
  std::size_t count = reports.wait_for(3).size();
  used.progress({.done = 1, .total = {}, .message = {}});
  EXPECT_EQ(reports.wait_for(count + 1).size(), count + 1) << "the beat goes on after its end";
}

TEST_F(ToolBeatTest, AToolThatCountsItselfIsNotDisturbed) {
  Reports reports;
  ToolContext used = context();
  used.progress = reports.taker();
  {
    ToolBeat beat(used, "Search", std::chrono::hours(1));
    used.progress({.done = 7, .total = 9, .message = "x"});
  }
  std::vector<ToolProgress> seen = reports.wait_for(1);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].done, 7);
}

TEST_F(ToolBeatTest, WithoutAListenerThereIsNoBeat) {
  ToolContext used = context();
  ToolBeat beat(used, "Search", std::chrono::milliseconds(1));
  EXPECT_FALSE(used.progress);
}

}  // namespace
}  // namespace warren
