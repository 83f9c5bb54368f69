#include "relay/delivery/watcher.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kMs = 1'000'000;

class WatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    log = std::make_unique<Log>(root->dir(), 1 << 20, clock);
    watcher = std::move(Watcher::open(*root, config, clock, *log)).value();
  }
  void add(const std::string& name) {
    ASSERT_OK(watcher->add_agent(name));
    EXPECT_TRUE(next().empty());  // scans the empty outbox
  }
  std::string outbox(const std::string& agent) { return root->path() + "/agents/" + agent + "/outbox/"; }
  std::string inbox(const std::string& agent) { return root->path() + "/agents/" + agent + "/inbox/"; }
  static std::string name(int number) { return fmt::format("{}-aaaaaaaa.msg", 1000 + number); }
  void write(const std::string& path, std::string_view text) {
    Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ASSERT_OK(write_all(file.get(), as_bytes(text)));
  }
  void send(const std::string& agent, const std::string& file) {
    write(outbox(agent) + ".pending/" + file, "TO: b\n\n");
    ASSERT_EQ(::rename((outbox(agent) + ".pending/" + file).c_str(), (outbox(agent) + file).c_str()), 0);
  }
  std::vector<Candidate> next(std::size_t limit = 1000) {
    watcher->take_events();
    return watcher->next(limit);
  }
  std::vector<std::string> files(std::size_t limit = 1000) {
    std::vector<std::string> out;
    for (const Candidate& one : next(limit)) out.push_back(one.agent + "/" + one.file);
    return out;
  }
  using Names = std::vector<std::string>;

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  Config config;
  std::unique_ptr<Root> root;
  std::unique_ptr<Log> log;
  std::unique_ptr<Watcher> watcher;
};

TEST_F(WatcherTest, AFileRenamedIntoAnOutboxIsOfferedImmediatelyAndOnce) {
  add("alice");
  send("alice", name(1));
  std::vector<Candidate> found = next();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].agent, "alice");
  EXPECT_EQ(found[0].file, name(1));
  EXPECT_TRUE(found[0].is_complete);
  EXPECT_TRUE(next().empty());
  EXPECT_FALSE(watcher->has_backlog());
}

TEST_F(WatcherTest, RenamedFilesAreOfferedInTheOrderOfTheirRenames) {
  add("alice");
  for (int number : {3, 1, 2}) send("alice", name(number));
  EXPECT_EQ(files(), (Names{"alice/" + name(3), "alice/" + name(1), "alice/" + name(2)}));
}

TEST_F(WatcherTest, AFileWrittenInPlaceWaitsForTheSettleTimeAndAStableSize) {
  add("alice");
  write(outbox("alice") + name(1), "TO: ");
  EXPECT_TRUE(next().empty());
  clock.advance_ns(99 * kMs);
  EXPECT_TRUE(next().empty());
  clock.advance_ns(2 * kMs);
  EXPECT_TRUE(next().empty());  // its size is known now
  write(outbox("alice") + name(1), "b\n\n");
  clock.advance_ns(101 * kMs);
  EXPECT_TRUE(next().empty());  // it grew
  clock.advance_ns(101 * kMs);
  std::vector<Candidate> found = next();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].is_complete);
}

TEST_F(WatcherTest, AnEmptyFileIsNotOfferedForSeconds) {
  add("alice");
  write(outbox("alice") + name(1), "");
  for (int i = 0; i < 20; ++i) {
    clock.advance_ns(101 * kMs);
    EXPECT_TRUE(next().empty());
  }
  EXPECT_LE(*watcher->wake_at_ns(), clock.monotonic_ns() + 100 * kMs);
  EXPECT_FALSE(watcher->has_backlog());  // a file that stays empty must not keep others waiting
}

TEST_F(WatcherTest, JumpsOfTheWallClockDoNotMatter) {
  add("alice");
  write(outbox("alice") + name(1), "TO: b\n\n");
  EXPECT_TRUE(next().empty());
  clock.jump_ns(std::int64_t{365} * 24 * 3600 * 1'000'000'000);
  EXPECT_TRUE(next().empty());
  clock.jump_ns(std::int64_t{-730} * 24 * 3600 * 1'000'000'000);
  clock.advance_ns(101 * kMs);
  EXPECT_TRUE(next().empty());
  clock.advance_ns(101 * kMs);
  EXPECT_EQ(next().size(), 1U);
}

TEST_F(WatcherTest, DraftsHiddenFilesInvalidNamesAndDirectoriesAreIgnored) {
  add("alice");
  write(outbox("alice") + ".pending/" + name(1), "TO: b\n\n");
  write(outbox("alice") + "." + name(2), "x");
  write(outbox("alice") + "hello.msg", "x");
  write(outbox("alice") + "1-aaaaaaaa.msg.tmp", "x");
  ASSERT_EQ(::mkdir((outbox("alice") + name(3)).c_str(), 0700), 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(next().empty());
    clock.advance_ns(200 * kMs);
  }
  EXPECT_FALSE(watcher->has_backlog());
  EXPECT_NE(read_host_file(root->path() + "/relay.log", 1 << 20)->find("hello.msg"), std::string::npos);
}

TEST_F(WatcherTest, ExistingFilesAreFoundInOrderOfNamesAfterTheSettleTime) {
  ASSERT_OK(root->make_agent("alice"));
  for (int number : {3, 1, 2}) send("alice", name(number));
  ASSERT_OK(watcher->add_agent("alice"));
  EXPECT_TRUE(next().empty());
  clock.advance_ns(101 * kMs);
  EXPECT_EQ(files(), (Names{"alice/" + name(1), "alice/" + name(2), "alice/" + name(3)}));
  EXPECT_TRUE(next().empty());
}

TEST_F(WatcherTest, AgentsTakeTurns) {
  add("alice");
  add("bob");
  for (int number = 0; number < 200; ++number) send("alice", name(number));
  send("bob", name(1));
  std::vector<Candidate> found = next(128);
  ASSERT_EQ(found.size(), 65U);  // 64 of one agent at a time
  EXPECT_EQ(found.back().agent, "bob");
  EXPECT_EQ(next(1000).size(), 64U);
}

TEST_F(WatcherTest, AnAgentOverItsRateWaitsAndOthersDoNot) {
  config.rate_per_second = 10;
  add("alice");
  add("bob");
  for (int number = 0; number < 30; ++number) send("alice", name(number));
  send("bob", name(1));
  EXPECT_EQ(files().size(), 11U);
  EXPECT_TRUE(next().empty());
  EXPECT_GT(*watcher->wake_at_ns(), clock.monotonic_ns());
  clock.advance_ns(500 * kMs);
  EXPECT_EQ(files(), (Names{"alice/" + name(10), "alice/" + name(11), "alice/" + name(12), "alice/" + name(13),
                            "alice/" + name(14)}));
  clock.advance_ns(std::int64_t{3600} * 1000 * kMs);
  EXPECT_EQ(files().size(), 10U);  // unused tokens do not add up
}

TEST_F(WatcherTest, FilesThatArePutBackAreOfferedFirst) {
  add("alice");
  for (int number = 0; number < 4; ++number) send("alice", name(number));
  std::vector<Candidate> found = next(2);
  ASSERT_EQ(found.size(), 2U);
  watcher->put_back(found);
  EXPECT_EQ(files(), (Names{"alice/" + name(0), "alice/" + name(1), "alice/" + name(2), "alice/" + name(3)}));
}

TEST_F(WatcherTest, APausedOutboxOffersNothingUntilItIsResumedAndKeepsItsOrder) {
  add("alice");
  add("bob");
  for (int number = 0; number < 3; ++number) send("alice", name(number));
  std::vector<Candidate> found = next(1);
  watcher->pause(found);
  send("bob", name(1));
  send("alice", name(3));
  EXPECT_EQ(files(), (Names{"bob/" + name(1)}));
  EXPECT_GT(*watcher->wake_at_ns(), clock.monotonic_ns());  // a held outbox wakes nobody
  EXPECT_TRUE(watcher->has_backlog());
  watcher->resume("alice");
  EXPECT_LE(*watcher->wake_at_ns(), clock.monotonic_ns());
  EXPECT_EQ(files(), (Names{"alice/" + name(0), "alice/" + name(1), "alice/" + name(2), "alice/" + name(3)}));
}

TEST_F(WatcherTest, AnIncompleteFileIsOfferedAgainAfterTheSettleTime) {
  add("alice");
  send("alice", name(1));
  watcher->look_again(next().at(0));
  EXPECT_TRUE(next().empty());
  clock.advance_ns(101 * kMs);
  EXPECT_TRUE(next().empty());
  clock.advance_ns(101 * kMs);
  EXPECT_EQ(next().size(), 1U);
}

TEST_F(WatcherTest, AScanDoesNotMakeASettledFileComplete) {
  add("alice");
  write(outbox("alice") + name(1), "TO: b\n\n");
  write(outbox("alice") + name(2), "TO: b\n\nfirst half");
  watcher->take_events();
  clock.advance_ns(101 * kMs);
  next(0);
  EXPECT_TRUE(next().empty());  // sees their sizes
  clock.advance_ns(101 * kMs);
  ASSERT_EQ(next(1).size(), 1U);  // the second one is ready
  ASSERT_EQ(::unlink((outbox("alice") + name(1)).c_str()), 0);
  std::string box = outbox("alice");
  box.pop_back();
  ASSERT_EQ(::rename(box.c_str(), (box + ".away").c_str()), 0);  // which ends the watch
  watcher->take_events();
  ASSERT_EQ(::rename((box + ".away").c_str(), box.c_str()), 0);
  write(outbox("alice") + name(3), "TO: b\n\n");
  ASSERT_OK(watcher->add_agent("alice"));
  EXPECT_TRUE(next().empty());  // scans
  clock.advance_ns(101 * kMs);
  std::vector<Candidate> offered = next();
  ASSERT_EQ(offered.size(), 2U);
  EXPECT_EQ(offered[0].file, name(2));
  EXPECT_FALSE(offered[0].is_complete);
  EXPECT_EQ(offered[0].seen.size, 17U);
  EXPECT_FALSE(offered[1].is_complete);
}

TEST_F(WatcherTest, AFileThatTheDiskDoesNotReturnIsLookedAtMoreAndMoreRarely) {
  add("alice");
  send("alice", name(1));
  std::vector<Candidate> offered = next();
  ASSERT_EQ(offered.size(), 1U);
  clock.advance_ns(10'000 * kMs);
  watcher->look_again(offered[0], Watcher::Delay::kGrowing);
  clock.advance_ns(9'000 * kMs);
  EXPECT_TRUE(next().empty());
  EXPECT_GT(*watcher->wake_at_ns(), clock.monotonic_ns());
  clock.advance_ns(1'001 * kMs);
  next();
  clock.advance_ns(101 * kMs);
  EXPECT_EQ(next().size(), 1U);
}

TEST_F(WatcherTest, FilesThatLeaveAnInboxAreNoticed) {
  add("bob");
  for (int number : {1, 2, 3}) write(inbox("bob") + name(number), "x");
  write(inbox("bob") + "notes", "x");
  ASSERT_EQ(::unlink((inbox("bob") + name(1)).c_str()), 0);
  ASSERT_EQ(::rename((inbox("bob") + name(2)).c_str(), (inbox("bob") + ".done/" + name(2)).c_str()), 0);
  ASSERT_EQ(::unlink((inbox("bob") + "notes").c_str()), 0);
  watcher->take_events();
  std::vector<LeftInbox> left = watcher->take_left();
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].file, name(1));
  EXPECT_EQ(left[1].file, name(2));
  EXPECT_TRUE(watcher->take_left().empty());
  EXPECT_EQ(watcher->take_inboxes_to_check(), (std::set<std::string>{"bob"}));  // since it was added
}

TEST_F(WatcherTest, ChangesOfAgentsAndPokesAreNoticed) {
  EXPECT_FALSE(watcher->take_agents_changed());
  ASSERT_OK(root->make_agent("alice"));
  ASSERT_OK(root->poke());
  watcher->take_events();
  EXPECT_TRUE(watcher->take_agents_changed());
  EXPECT_FALSE(watcher->take_agents_changed());
  EXPECT_TRUE(watcher->take_poke());
  EXPECT_FALSE(watcher->take_poke());
}

TEST_F(WatcherTest, AReplacedOutboxIsWatchedOnceTheAgentIsAddedAgain) {
  add("alice");
  ASSERT_EQ(::rename(outbox("alice").c_str(), (root->path() + "/agents/alice/old").c_str()), 0);
  watcher->take_events();
  EXPECT_TRUE(watcher->take_agents_changed());
  ASSERT_OK(watcher->add_agent("alice"));
  EXPECT_TRUE(next().empty());
  send("alice", name(1));
  EXPECT_EQ(next().size(), 1U);
}

TEST_F(WatcherTest, ARemovedAgentOffersNothing) {
  add("alice");
  send("alice", name(1));
  watcher->take_events();
  watcher->remove_agent("alice");
  send("alice", name(2));
  EXPECT_TRUE(next().empty());
  EXPECT_FALSE(watcher->has_backlog());
}

TEST_F(WatcherTest, DirectoriesAreScannedWhenTheKernelDropsEvents) {
  add("alice");
  int limit = std::stoi(*read_host_file("/proc/sys/fs/inotify/max_queued_events", 100));
  constexpr int kExtra = 50;
  for (int number = 0; number < limit + kExtra; ++number) {
    std::string file = fmt::format("{}-aaaaaaaa.msg", 1'000'000 + number);
    ASSERT_EQ(::link((root->path() + "/config.json").c_str(), (outbox("alice") + file).c_str()), 0);
  }
  watcher->take_events();
  EXPECT_EQ(watcher->overflows(), 1U);
  EXPECT_TRUE(watcher->take_inboxes_to_check().contains("alice"));
  EXPECT_TRUE(watcher->take_agents_changed());
  std::set<std::string> seen;
  config.rate_per_second = 0;
  for (int i = 0; i < 2000 && seen.size() < static_cast<std::size_t>(limit + kExtra); ++i) {
    for (const Candidate& one : next(4096)) EXPECT_TRUE(seen.insert(one.file).second) << one.file;
    clock.advance_ns(101 * kMs);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(limit + kExtra));
}

TEST_F(WatcherTest, LeftoversAreRemovedOnceSeenUnchangedForHalfAMinute) {
  add("alice");
  std::string draft = outbox("alice") + ".pending/" + name(1);
  write(draft, "TO");
  watcher->clean_pending("alice");
  clock.advance_ns(29'000 * kMs);
  watcher->clean_pending("alice");
  EXPECT_TRUE(find_host_file(draft)->has_value());
  timespec other[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, draft.c_str(), other, 0), 0);  // its sender continues
  clock.advance_ns(2'000 * kMs);
  watcher->clean_pending("alice");
  clock.advance_ns(29'000 * kMs);
  watcher->clean_pending("alice");
  EXPECT_TRUE(find_host_file(draft)->has_value());
  clock.advance_ns(2'000 * kMs);
  watcher->clean_pending("alice");
  EXPECT_FALSE(find_host_file(draft)->has_value());
}

TEST_F(WatcherTest, ARescanIsDueAfterTheConfiguredTime) {
  EXPECT_FALSE(watcher->rescan_is_due());
  clock.advance_ns(30'001 * kMs);
  EXPECT_TRUE(watcher->rescan_is_due());
  watcher->note_rescan();
  EXPECT_FALSE(watcher->rescan_is_due());
}

}  // namespace
}  // namespace warren::relay
