#include "vfs/live_policy.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "fs/forwarding_fs.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

constexpr std::string_view kClosed =
    R"({"version": 1, "rules": [{"path": "/x", "operation": "write", "effect": "deny"}]})";

// Counts lookups, has a change mark that the test sets, and can hold the first read, without a lock.
class WatchedFs final : public ForwardingFs {
 public:
  explicit WatchedFs(FileSystem& inner) : ForwardingFs(inner) {}

  Result<std::unique_ptr<Unit>> begin(UnitAccess) override { return std::unique_ptr<Unit>(new NoUnit); }
  Result<Attributes> lookup(Inode parent, std::string_view name) override {
    ++lookups;
    return ForwardingFs::lookup(parent, name);
  }
  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override {
    if (before_read) std::exchange(before_read, nullptr)();
    return ForwardingFs::read(node, offset, out);
  }
  std::optional<std::uint64_t> change_mark() override { return mark; }

  std::atomic<int> lookups = 0;
  std::optional<std::uint64_t> mark;
  std::function<void()> before_read;

 private:
  class NoUnit final : public Unit {
    Status commit() override { return Ok{}; }
  };
};

class LivePolicyTest : public ::testing::Test {
 protected:
  void set(std::string_view text) {
    clock_.advance_ns(1'000);
    ASSERT_OK(LivePolicy::replace(memory_, text, "test", clock_));
  }
  std::size_t rules() { return policy_.current().value().policy->rules().size(); }

  testing::FakeClock clock_;
  MemoryFs memory_{clock_};
  WatchedFs own_{memory_};
  LivePolicy policy_{own_};
};

TEST_F(LivePolicyTest, IsLookedForAgainOnlyWhenTheTreeMayHaveChanged) {
  own_.mark = 1;
  EXPECT_EQ(rules(), 0U);
  int before = own_.lookups;
  EXPECT_EQ(rules(), 0U);
  EXPECT_EQ(own_.lookups, before);
  set(kClosed);
  own_.mark = 2;
  EXPECT_EQ(rules(), 1U);
  ASSERT_OK(unlink(memory_, kActivePolicy));
  own_.mark.reset();
  EXPECT_EQ(rules(), 0U);
  set(kClosed);
  EXPECT_EQ(rules(), 1U) << "a tree that cannot tell is always looked at";
}

TEST_F(LivePolicyTest, WhatWasReadDuringAChangeIsNotKept) {
  set(kClosed);
  own_.mark = 1;
  own_.before_read = [this] { own_.mark = 2; };
  EXPECT_EQ(rules(), 1U);
  ASSERT_OK(unlink(memory_, kActivePolicy));
  own_.mark = 1;  // the change was taken back
  EXPECT_EQ(rules(), 0U);
}

TEST_F(LivePolicyTest, AnInvalidOneIsReportedUntilItIsReplaced) {
  ASSERT_OK(write_file(memory_, kActivePolicy, as_bytes("{")));
  own_.mark = 1;
  EXPECT_EQ(testing::error_of(policy_.current()), Code::kCorrupt);
  EXPECT_EQ(testing::error_of(policy_.current()), Code::kCorrupt);
  set(kClosed);
  own_.mark = 2;
  EXPECT_EQ(rules(), 1U);
}

// The reader may need a lock that the other caller's unit holds.
TEST_F(LivePolicyTest, ACallDoesNotWaitForAnotherThatIsReading) {
  set(kClosed);
  std::promise<void> is_reading;
  std::promise<void> is_done;
  own_.before_read = [&] {
    is_reading.set_value();
    EXPECT_EQ(is_done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  };
  std::thread reader([&] { EXPECT_TRUE(policy_.current().ok()); });
  is_reading.get_future().wait();
  std::thread other([&] {
    EXPECT_TRUE(policy_.current().ok());
    is_done.set_value();
  });
  reader.join();
  other.join();
}

}  // namespace
}  // namespace warren
