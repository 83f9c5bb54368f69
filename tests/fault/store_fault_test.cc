// The nth disk call fails, for every n: each time all or nothing, and the store stays usable.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "db/faulty_vfs_testing.h"
#include "fault/world.h"
#include "store/fsck/fsck.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

class StoreFault : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    ASSERT_OK(make_world(original_, clock_, files()));
    before_ = state_after_restart(original_, clock_);
    fresh();
    {
      FaultyVfs healthy;
      auto store = Store::open(file_, world_options(healthy.name()), clock_);
      ASSERT_OK(store);
      ASSERT_OK(operation().run(**store));
    }
    after_ = state_after_restart(file_, clock_);
    ASSERT_NE(before_, after_);
  }

  // Each operation on plain files, then each on encrypted ones.
  Operation operation() const { return operations()[GetParam() % operations().size()]; }
  Files files() const { return GetParam() < operations().size() ? Files::kPlain : Files::kEncrypted; }

  void fresh() {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file_ + suffix);
    std::filesystem::copy_file(original_, file_);
  }

  // Does one run with the plan; returns false if the plan's call was never reached.
  bool try_once(const FaultPlan& plan) {
    fresh();
    FaultyVfs vfs;
    bool done = false;
    {
      auto store = Store::open(file_, world_options(vfs.name()), clock_);
      EXPECT_OK(store);
      vfs.fail(plan);
      done = operation().run(**store).ok();
    }  // closing, which checkpoints everything into one file, also uses the failing disk
    std::string state = state_after_restart(file_, clock_);
    EXPECT_TRUE(state == after_ || (!done && state == before_))
        << operation().name << ", call " << plan.nth << (done ? ", done" : ", refused") << ":\n"
        << state;
    return vfs.fired();
  }

  void sweep(FaultPlan plan) {
    for (plan.nth = 1; plan.nth <= limits::kFaultSweep; ++plan.nth) {
      if (!try_once(plan)) {
        EXPECT_GT(plan.nth, 1) << "no call was ever made to fail";
        return;
      }
    }
    FAIL() << "never got through";
  }

  // After a failure the same open store must still be consistent, and must succeed once the disk works again.
  bool recover_once(const FaultPlan& plan) {
    fresh();
    FaultyVfs vfs;
    bool fired = false;
    {
      auto store = Store::open(file_, world_options(vfs.name()), clock_);
      EXPECT_OK(store);
      vfs.fail(plan);
      Status done = operation().run(**store);
      fired = vfs.fired();
      vfs.heal();
      if (!done.ok()) {
        EXPECT_EQ(done.error().code(), plan.fault == DiskFault::kNoSpace ? Code::kNoSpace : Code::kIo)
            << done.error().message();
        EXPECT_EQ(state_of(**store).value(), before_) << operation().name << ", call " << plan.nth;
        EXPECT_OK(operation().run(**store));
      }
      EXPECT_EQ(state_of(**store).value(), after_) << operation().name << ", call " << plan.nth;
    }
    EXPECT_EQ(state_after_restart(file_, clock_), after_) << operation().name << ", call " << plan.nth;
    return fired;
  }

  void sweep_recovery(FaultPlan plan) {
    for (plan.nth = 1; plan.nth <= limits::kFaultSweep; ++plan.nth) {
      if (!recover_once(plan)) {
        EXPECT_GT(plan.nth, 1) << "no call was ever made to fail";
        return;
      }
    }
    FAIL() << "never got through";
  }

  TempDir dir_;
  FakeClock clock_;
  std::string original_ = dir_.file("original.db");
  std::string file_ = dir_.file("a.db");
  std::string before_;
  std::string after_;
};

TEST_P(StoreFault, OneFailedDiskCallIsAllOrNothing) { sweep({.call = DiskCall::kAny}); }

TEST_P(StoreFault, ADiskThatFailsForGoodIsAllOrNothing) {
  sweep({.call = DiskCall::kAny, .lasts = FaultLasts::kFromThenOn});
}

TEST_P(StoreFault, AFullDiskIsAllOrNothing) {
  sweep({.call = DiskCall::kWrite, .fault = DiskFault::kNoSpace, .lasts = FaultLasts::kFromThenOn});
}

TEST_P(StoreFault, TheSameStoreWorksAgainWhenThereIsSpaceAgain) {
  sweep_recovery({.call = DiskCall::kWrite, .fault = DiskFault::kNoSpace, .lasts = FaultLasts::kFromThenOn});
}

TEST_P(StoreFault, TheSameStoreWorksAgainAfterAFailedWrite) {
  sweep_recovery({.call = DiskCall::kWrite, .fault = DiskFault::kIo, .lasts = FaultLasts::kOnce});
}

TEST_P(StoreFault, TheSameStoreWorksAgainAfterAFailedSync) {
  sweep_recovery({.call = DiskCall::kSync, .fault = DiskFault::kIo, .lasts = FaultLasts::kOnce});
}

TEST_P(StoreFault, TheSameStoreWorksAgainAfterAFailedRead) {
  FaultPlan plan{.call = DiskCall::kRead, .fault = DiskFault::kIo, .lasts = FaultLasts::kOnce};
  while (recover_once(plan)) ++plan.nth;  // an operation may find everything in memory
}

std::string name_of_case(const ::testing::TestParamInfo<std::size_t>& info) {
  std::size_t count = operations().size();
  std::string name = operations()[info.param % count].name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return info.param < count ? name : name + "_encrypted";
}

INSTANTIATE_TEST_SUITE_P(Each, StoreFault, ::testing::Range(std::size_t{0}, 2 * operations().size()), name_of_case);

TEST(StoreCreationFault, AnAgentIsCreatedCompletelyOrCannotBeOpened) {
  TempDir dir;
  FakeClock clock;
  for (int nth = 1; nth <= limits::kFaultSweep; ++nth) {
    std::string file = dir.file(fmt::format("{}.db", nth));
    FaultyVfs vfs;
    vfs.fail({.nth = nth});
    bool made = Store::open(file, {.mode = OpenMode::kCreate, .vfs = vfs.name()}, clock).ok();
    bool fired = vfs.fired();
    auto again = Store::open(file, {}, clock);
    EXPECT_TRUE(again.ok() || !made) << "call " << nth << ": made, but does not open: " << again.error().message();
    if (again.ok()) {
      again->reset();
      auto report = check_agent(file, clock);
      ASSERT_OK(report);
      EXPECT_TRUE(report->clean()) << "call " << nth << ": " << report->violations[0].message;
    }
    if (!fired) return;
  }
  FAIL() << "never got through";
}

}  // namespace
}  // namespace warren::testing
