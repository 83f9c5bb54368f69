#include <gtest/gtest.h>

#include "relay/ledger/ledger.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

class LedgerAgentsTest : public ::testing::Test {
 protected:
  LedgerAgentsTest() { ledger = Ledger::open(dir.path() + "/ledger.db", LedgerUse::kServe, clock).take_value(); }
  void put(const Life& life) {
    auto transaction = ledger->begin();
    ASSERT_OK(transaction);
    ASSERT_OK(ledger->put_life(life));
    ASSERT_OK(transaction->commit());
  }
  static Life life(std::string name, std::int64_t number, LifeState state) {
    Life out;
    out.name = std::move(name);
    out.number = number;
    out.message_id = out.name + std::to_string(number);
    out.state = state;
    return out;
  }

  testing::TempDir dir;
  testing::FakeClock clock;
  std::unique_ptr<Ledger> ledger;
};

TEST_F(LedgerAgentsTest, ALifeIsReadBackAsItWasWritten) {
  Life put_in = life("w", 1, LifeState::kReleasing);
  put_in.spawner = "alice";
  put_in.depth = 2;
  put_in.cli = "c";
  put_in.dir = "/d";
  put_in.process = {"boot", 4, 5, 6};
  put_in.token_sha256 = "t";
  put_in.releaser = "r";
  put_in.outcome = "o";
  put_in.asked_at_us = 7;
  put_in.started_at_us = 8;
  put_in.ended_at_us = 9;
  put(put_in);
  auto found = ledger->find_life("w1");
  ASSERT_OK(found);
  ASSERT_TRUE(found->has_value());
  const Life& out = **found;
  EXPECT_EQ(out.process, put_in.process);
  EXPECT_EQ(out.state, LifeState::kReleasing);
  EXPECT_EQ(out.spawner + out.cli + out.dir + out.token_sha256 + out.releaser + out.outcome, "alicec/dtro");
  EXPECT_EQ(out.depth + out.asked_at_us + out.started_at_us + out.ended_at_us, 2 + 7 + 8 + 9);
}

TEST_F(LedgerAgentsTest, ListsTheNewestLifeThatHadAProcessAndAllThatAreAskedFor) {
  put(life("w", 1, LifeState::kExited));
  put(life("w", 2, LifeState::kRunning));
  put(life("w", 3, LifeState::kFailed));
  put(life("v", 1, LifeState::kAsked));
  auto lives = ledger->list_lives();
  ASSERT_OK(lives);
  ASSERT_EQ(lives->size(), 2U);
  EXPECT_EQ((*lives)[0].message_id, "v1");
  EXPECT_EQ((*lives)[1].message_id, "w2");
  EXPECT_EQ(ledger->next_life("w").take_value(), 4);
  EXPECT_EQ(ledger->next_life("new").take_value(), 1);
}

TEST_F(LedgerAgentsTest, StatesMayBeAnyBytesAndTheLastOnesAreKept) {
  std::string bytes;
  for (int value = 0; value < 256; ++value) bytes += static_cast<char>(value);
  for (std::int64_t version = 1; version <= 5; ++version) {
    auto transaction = ledger->begin();
    ASSERT_OK(transaction);
    ASSERT_OK(ledger->save_state({"w", version, 0, bytes + std::to_string(version)}, 2));
    ASSERT_OK(transaction->commit());
  }
  EXPECT_EQ(ledger->newest_version("w").take_value(), 5);
  EXPECT_EQ(ledger->newest_version("v").take_value(), 0);
  EXPECT_EQ(ledger->find_state("w").take_value()->content, bytes + "5");
  EXPECT_EQ(ledger->find_state("w", 4).take_value()->content, bytes + "4");
  EXPECT_FALSE(ledger->find_state("w", 3).take_value());
  EXPECT_FALSE(ledger->find_state("v").take_value());
}

}  // namespace
}  // namespace warren::relay
