// The power fails after the nth disk call, for every n, with unsynced sectors lost or torn.
#include <filesystem>

#include <gtest/gtest.h>

#include "base/limits.h"
#include "db/faulty_vfs_testing.h"
#include "fault/world.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

struct CutOutcome {
  bool was_cut = false;
  std::size_t acknowledged = 0;
  std::string state;
};

class PowerCut : public ::testing::TestWithParam<PowerLoss> {
 protected:
  void SetUp() override {
    ASSERT_OK(make_world(original_, clock_));
    fresh();
    FaultyVfs healthy;
    auto store = Store::open(file_, {.vfs = healthy.name()}, clock_);
    ASSERT_OK(store);
    states_.push_back(state_of(**store).value());
    for (const Operation& operation : operations()) {
      ASSERT_OK(operation.run(**store));
      states_.push_back(state_of(**store).value());
    }
  }

  void fresh() {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file_ + suffix);
    std::filesystem::copy_file(original_, file_);
  }

  CutOutcome cut_after(int nth, Durability durability) {
    fresh();
    CutOutcome outcome;
    FaultyVfs vfs;
    vfs.hold_back();
    {
      auto store = Store::open(file_, {.durability = durability, .vfs = vfs.name()}, clock_);
      EXPECT_OK(store);
      vfs.cut_power_after(nth, GetParam(), static_cast<std::uint64_t>(nth));
      for (const Operation& operation : operations()) {
        if (!operation.run(**store).ok()) break;
        if (vfs.power_is_cut()) {
          // The power failed during this operation, yet it succeeded. With kPower it was synced before, so it must
          // survive; with kProcess it may be lost.
          if (durability == Durability::kPower) ++outcome.acknowledged;
          break;
        }
        ++outcome.acknowledged;
      }
    }
    outcome.was_cut = vfs.power_is_cut();
    outcome.state = state_after_restart(file_, clock_);
    return outcome;
  }

  std::optional<std::size_t> index_of(const std::string& state) const {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i] == state) return i;
    }
    return std::nullopt;
  }

  TempDir dir_;
  FakeClock clock_;
  std::string original_ = dir_.file("original.db");
  std::string file_ = dir_.file("a.db");
  std::vector<std::string> states_;  // after none, one, two ... of the operations
};

TEST_P(PowerCut, AcknowledgedChangesWithPowerDurabilitySurvive) {
  for (int nth = 1; nth <= limits::kFaultSweep; ++nth) {
    CutOutcome outcome = cut_after(nth, Durability::kPower);
    std::optional<std::size_t> index = index_of(outcome.state);
    ASSERT_TRUE(index) << "call " << nth << " left half a change:\n" << outcome.state;
    EXPECT_GE(*index, outcome.acknowledged) << "call " << nth << " lost an acknowledged change";
    EXPECT_LE(*index, outcome.acknowledged + 1) << "call " << nth;
    if (!outcome.was_cut) return;
  }
  FAIL() << "never got through";
}

TEST_P(PowerCut, WithProcessDurabilityOnlyWholeChangesAreLost) {
  for (int nth = 1; nth <= limits::kFaultSweep; ++nth) {
    CutOutcome outcome = cut_after(nth, Durability::kProcess);
    std::optional<std::size_t> index = index_of(outcome.state);
    ASSERT_TRUE(index) << "call " << nth << " left half a change:\n" << outcome.state;
    EXPECT_LE(*index, outcome.acknowledged + 1) << "call " << nth;
    if (!outcome.was_cut) return;
  }
  FAIL() << "never got through";
}

INSTANTIATE_TEST_SUITE_P(Each, PowerCut, ::testing::Values(PowerLoss::kDropped, PowerLoss::kTorn),
                         [](const auto& each) { return each.param == PowerLoss::kDropped ? "Dropped" : "Torn"; });

}  // namespace
}  // namespace warren::testing
