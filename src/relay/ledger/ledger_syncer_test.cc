#include "relay/ledger/ledger_syncer.h"

#include <atomic>
#include <future>

#include <poll.h>

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::relay {
namespace {

TEST(LedgerSyncer, FilesAreFiledAfterTheSyncAndInOrder) {
  std::atomic<int> syncs = 0;
  std::vector<std::string> filed;
  LedgerSyncer syncer(
      [&] {
        ++syncs;
        return Status(Ok{});
      },
      [&](std::vector<Filing> filings) {
        EXPECT_GT(syncs, 0);
        for (const Filing& filing : filings) filed.push_back(filing.file);
        return std::vector<Filing>();
      });
  syncer.ask({{"a", "1", ""}, {"a", "2", ""}});
  std::uint64_t last = syncer.ask({{"a", "3", ""}});
  ASSERT_OK(syncer.wait_filed(last));
  EXPECT_EQ(filed, (std::vector<std::string>{"1", "2", "3"}));
}

TEST(LedgerSyncer, CommitsDuringASyncShareTheNextOne) {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> syncs = 0;
  LedgerSyncer syncer(
      [&] {
        if (++syncs == 1) open.wait();
        return Status(Ok{});
      },
      [](std::vector<Filing>) { return std::vector<Filing>(); });
  syncer.ask();
  while (syncs == 0) std::this_thread::yield();
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) last = syncer.ask();
  gate.set_value();
  ASSERT_OK(syncer.wait(last));
  EXPECT_EQ(syncs, 2);
}

TEST(LedgerSyncer, NothingIsFiledAfterAFailureUntilEverythingIsDurable) {
  std::atomic<int> filed = 0;
  LedgerSyncer syncer([] { return Status(Error(Code::kIo, "the disk")); },
                      [&](std::vector<Filing> filings) {
                        filed += static_cast<int>(filings.size());
                        return std::vector<Filing>();
                      });
  std::uint64_t number = syncer.ask({{"a", "1", ""}});
  Status waited = syncer.wait(number);
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().message(), "the disk");
  EXPECT_TRUE(syncer.failure());
  pollfd told{syncer.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 10'000), 1);
  EXPECT_EQ(filed, 0);
  syncer.note_durable();
  ASSERT_OK(syncer.wait_filed(number));
  EXPECT_EQ(filed, 1);
  EXPECT_FALSE(syncer.failure());
}

TEST(LedgerSyncer, AFilingThatFailsIsTriedAgain) {
  std::atomic<int> tries = 0;
  LedgerSyncer syncer([] { return Status(Ok{}); },
                      [&](std::vector<Filing> filings) { return ++tries < 3 ? filings : std::vector<Filing>(); });
  ASSERT_OK(syncer.wait_filed(syncer.ask({{"a", "1", ""}})));
  EXPECT_EQ(tries, 3);
}

}  // namespace
}  // namespace warren::relay
