#include "relay/attachments/attachment_sweep.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "relay/attachments/attachments.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

constexpr std::int64_t kHourNs = 3'600'000'000'000;
constexpr std::int64_t kMinuteNs = 60'000'000'000;

class SweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    ledger = std::move(Ledger::open(root->ledger_path(), LedgerUse::kServe, clock)).value();
    store = std::make_unique<AttachmentStore>(*root);
    log = std::make_unique<Log>(root->dir(), 1 << 20, clock);
    start();
  }
  void start() { sweep = std::make_unique<AttachmentSweep>(*store, *ledger, config, clock, *log); }
  std::string add(std::string_view content) {
    EXPECT_OK(replace_host_file(dir.file("source"), content, 0600));
    Fd file(::open(dir.file("source").c_str(), O_RDONLY | O_CLOEXEC));
    return std::move(store->add(file.get(), 1 << 30)).value();
  }
  // Records a message with one delivery, as a round does.
  Delivery refer(const std::string& hash, const std::string& id) {
    MessageRow row{.id = id, .agent = "a", .direction = "outbox", .path = "archive/" + id, .status = "processing"};
    Delivery delivery{.message_id = id, .recipient = "b", .inbox_name = id};
    EXPECT_OK(ledger->add_message(row));
    EXPECT_OK(ledger->add_delivery(delivery));
    EXPECT_OK(ledger->put_attachment({hash, store->open(hash)->identity, true, 0}));
    EXPECT_OK(ledger->add_reference(hash, id));
    return delivery;
  }
  void pass() {
    int steps = 0;
    while (sweep->step()) ASSERT_LT(++steps, 100'000);
    ASSERT_GT(steps, 0);
  }
  void pass_after(std::int64_t ns) {
    clock.advance_ns(ns);
    pass();
  }
  bool is_there(const std::string& hash) { return store->open(hash).ok(); }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  Config config;
  std::unique_ptr<Root> root;
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<AttachmentStore> store;
  std::unique_ptr<Log> log;
  std::unique_ptr<AttachmentSweep> sweep;
};

TEST_F(SweepTest, AnUnreferencedFileIsRemovedAnHourAfterItWasSeen) {
  std::string hash = add("x");
  pass();
  EXPECT_FALSE(sweep->step());  // not due yet
  pass_after(kHourNs - kMinuteNs);
  EXPECT_TRUE(is_there(hash));
  pass_after(6 * kMinuteNs);
  EXPECT_FALSE(is_there(hash));
  EXPECT_FALSE(ledger->find_attachment(hash)->has_value());
}

TEST_F(SweepTest, AddingAFileAgainRestartsItsHour) {
  std::string hash = add("x");
  timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(root->attachments(), path_of_attachment(hash).c_str(), long_ago, 0), 0);
  pass();
  pass_after(kHourNs - kMinuteNs);
  add("x");
  pass_after(10 * kMinuteNs);
  EXPECT_TRUE(is_there(hash));
  pass_after(kHourNs);
  EXPECT_FALSE(is_there(hash));
}

TEST_F(SweepTest, AReferenceLastsUntilItsDeliveryIsRead) {
  for (DeliveryState state : {DeliveryState::kRead, DeliveryState::kAcked, DeliveryState::kNacked}) {
    std::string hash = add(name_of(state));
    Delivery delivery = refer(hash, "a/" + std::string(name_of(state)));
    for (DeliveryState open :
         {DeliveryState::kPending, DeliveryState::kStored, DeliveryState::kHeld, DeliveryState::kDelivered}) {
      ASSERT_OK(ledger->set_state(delivery, open));
      pass_after(2 * kHourNs);
      EXPECT_TRUE(is_there(hash)) << name_of(open);
    }
    ASSERT_OK(ledger->set_state(delivery, state));
    pass_after(2 * kHourNs);
    EXPECT_TRUE(is_there(hash));  // the hour starts when it is seen
    EXPECT_TRUE(ledger->list_references({}, 10)->empty());
    pass_after(kHourNs + kMinuteNs);
    EXPECT_FALSE(is_there(hash)) << name_of(state);
  }
}

TEST_F(SweepTest, OneOfManyReferencesIsEnough) {
  std::string hash = add("x");
  std::vector<Delivery> all;
  auto transaction = std::move(ledger->begin()).value();
  for (int i = 0; i < 600; ++i) all.push_back(refer(hash, fmt::format("a/{}", i)));  // more than a page
  for (std::size_t i = 0; i + 1 < all.size(); ++i) ASSERT_OK(ledger->set_state(all[i], DeliveryState::kRead));
  ASSERT_OK(transaction.commit());
  pass_after(2 * kHourNs);
  pass_after(2 * kHourNs);
  EXPECT_TRUE(is_there(hash));
  EXPECT_EQ(ledger->list_references({}, 10)->size(), 1U);
  ASSERT_OK(ledger->set_state(all.back(), DeliveryState::kRead));
  pass_after(2 * kHourNs);
  pass_after(2 * kHourNs);
  EXPECT_FALSE(is_there(hash));
}

TEST_F(SweepTest, ADeadLetterKeepsItsAttachmentUntilItIsDismissed) {
  std::string hash = add("x");
  Delivery delivery = refer(hash, "a/1");
  ASSERT_OK(ledger->bury(delivery, "gone"));
  pass_after(2 * kHourNs);
  pass_after(2 * kHourNs);
  EXPECT_TRUE(is_there(hash));
  ASSERT_OK(ledger->close_dead_letter(ledger->list_dead(1)->front().id, "discarded"));
  pass_after(2 * kHourNs);
  pass_after(2 * kHourNs);
  EXPECT_FALSE(is_there(hash));
}

TEST_F(SweepTest, SettingTheClockMakesCollectionNeitherEarlyNorLate) {
  std::string hash = add("x");
  pass();
  clock.jump_ns(100 * kHourNs);
  pass_after(30 * kMinuteNs);
  EXPECT_TRUE(is_there(hash));
  clock.jump_ns(-200 * kHourNs);
  pass_after(20 * kMinuteNs);
  EXPECT_TRUE(is_there(hash));
  pass_after(11 * kMinuteNs);
  EXPECT_FALSE(is_there(hash));
}

TEST_F(SweepTest, TheTimeOfASuspendedMachineCounts) {
  std::string hash = add("x");
  pass();
  clock.suspend_ns(2 * kHourNs);
  pass_after(10 * kMinuteNs);
  EXPECT_FALSE(is_there(hash));
}

TEST_F(SweepTest, AClockThatWasSetBackWhileTheRelayWasDownRestartsTheHour) {
  std::string hash = add("x");
  pass();
  clock.jump_ns(-1000 * kHourNs);
  start();
  pass();
  EXPECT_TRUE(is_there(hash));
  pass_after(kHourNs + kMinuteNs);
  EXPECT_FALSE(is_there(hash));
}

TEST_F(SweepTest, ManyAreRemovedInManySteps) {
  config.attachment_keep = std::chrono::milliseconds(0);
  start();
  std::string prefix = root->path() + "/attachments/ab";
  ASSERT_EQ(::mkdir(prefix.c_str(), 0700), 0);
  for (int i = 0; i < 200; ++i) ASSERT_OK(replace_host_file(fmt::format("{}/ab{:062x}", prefix, i), "x", 0600));
  int steps = 0;
  while (sweep->step()) ++steps;
  EXPECT_GT(steps, 258);  // 256 directories, references, strays: and more than one for this directory
  EXPECT_TRUE(store->list("ab")->empty());
}

TEST_F(SweepTest, ARowWithoutAFileIsRemoved) {
  std::string hash = add("x");
  pass();
  ASSERT_TRUE(*store->remove(hash, store->open(hash)->identity));
  pass_after(kHourNs);
  EXPECT_FALSE(ledger->find_attachment(hash)->has_value());
}

class AttachmentsTest : public SweepTest {
 protected:
  void SetUp() override {
    SweepTest::SetUp();
    attachments = std::move(Attachments::open(*root, *ledger, config, clock, *log)).value();
  }
  static Message message(const std::string& hash) {
    return {.to = "b", .others = {{std::string(kAttachmentHeader), reference_of(hash)}}};
  }
  std::unique_ptr<Attachments> attachments;
};

TEST_F(AttachmentsTest, AVerifiedFileIsReadAgainOnlyIfItChanged) {
  std::string hash = add("small");
  EXPECT_EQ(*attachments->check(message(hash), "a"), Readiness::kReady);
  ASSERT_OK(attachments->record(message(hash), "a/1"));
  EXPECT_TRUE((*ledger->find_attachment(hash))->is_verified);
  EXPECT_TRUE((*ledger->find_attachment(hash))->is_referenced);
  // Only the identity is checked: a row with this identity for other bytes is trusted.
  std::string path = root->path() + "/attachments/" + path_of_attachment(hash);
  ASSERT_OK(replace_host_file(path, "wrong", 0600));
  ASSERT_OK(ledger->put_attachment({hash, store->open(hash)->identity, true, 0}));
  EXPECT_EQ(*attachments->check(message(hash), "a"), Readiness::kReady);
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), nullptr, 0), 0);
  EXPECT_EQ(error_of(attachments->check(message(hash), "a")), Code::kCorrupt);
}

TEST_F(AttachmentsTest, AMessageWaitsForALargeFile) {
  std::string hash = add(std::string(2 << 20, 'x'));
  ASSERT_EQ(*attachments->check(message(hash), "a"), Readiness::kWaits);
  EXPECT_EQ(*attachments->check(message(hash), "b"), Readiness::kWaits);
  EXPECT_TRUE(attachments->is_waiting("a"));
  EXPECT_FALSE(attachments->is_waiting("c"));
  EXPECT_FALSE(attachments->sweep());  // a reference is about to be added
  EXPECT_EQ(attachments->sweep_at_ns(), INT64_MAX);
  std::set<std::string> ready;
  while (ready.size() < 2) ready.merge(attachments->take_hashed());
  EXPECT_EQ(ready, (std::set<std::string>{"a", "b"}));
  EXPECT_FALSE(attachments->is_waiting("a"));
  EXPECT_EQ(*attachments->check(message(hash), "a"), Readiness::kReady);
  EXPECT_EQ(*attachments->check(message(hash), "b"), Readiness::kReady);
  EXPECT_TRUE(attachments->sweep());
}

TEST_F(AttachmentsTest, TheResultForAFileThatWasReplacedSinceIsIgnored) {
  std::string hash = add(std::string(2 << 20, 'x'));
  ASSERT_EQ(*attachments->check(message(hash), "a"), Readiness::kWaits);
  std::set<std::string> ready;
  while (ready.empty()) ready = attachments->take_hashed();
  ASSERT_OK(
      replace_host_file(root->path() + "/attachments/" + path_of_attachment(hash), std::string(2 << 20, 'y'), 0600));
  ASSERT_EQ(*attachments->check(message(hash), "a"), Readiness::kWaits);
  ready.clear();
  while (ready.empty()) ready = attachments->take_hashed();
  EXPECT_EQ(error_of(attachments->check(message(hash), "a")), Code::kCorrupt);
  EXPECT_EQ(error_of(attachments->check(message(hash), "a")), Code::kNotFound);  // it was moved aside
}

}  // namespace
}  // namespace warren::relay
