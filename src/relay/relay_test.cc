#include "relay/relay.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/dir_watch.h"
#include "os/files/host_files.h"
#include "relay/client/client.h"
#include "relay/delivery/mailroom.h"
#include "relay/ledger/ledger.h"
#include "relay/protocol/names.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kDay = 86'400'000'000'000;

// The real clock, whose wall time a test sets.
class JumpingClock final : public Clock {
 public:
  Timestamp now() override {
    Timestamp real = real_.now();
    std::int64_t ns = real.seconds * 1'000'000'000 + real.nanoseconds + offset_ns_;
    return {.seconds = ns / 1'000'000'000, .nanoseconds = static_cast<std::int32_t>(ns % 1'000'000'000)};
  }
  std::int64_t monotonic_ns() override { return real_.monotonic_ns(); }
  void jump_ns(std::int64_t ns) { offset_ns_ += ns; }

 private:
  SystemClock real_;
  std::atomic<std::int64_t> offset_ns_ = 0;
};

std::string make_name(int number) { return fmt::format("{:019}-00000000.msg", number + 1); }

class RelayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    alice = std::move(Client::open(*root, "alice", clock)).value();
    bob = std::move(Client::open(*root, "bob", clock)).value();
  }
  void TearDown() override { stop(); }

  void start() {
    stopping = Fd(::eventfd(0, EFD_CLOEXEC));
    relay = std::move(Relay::start(root->path(), clock)).value();
    thread = std::thread([this] { EXPECT_OK(relay->run(stopping.get())); });
  }
  void stop() {
    if (!thread.joinable()) return;
    ::eventfd_write(stopping.get(), 1);
    thread.join();
    relay.reset();
  }

  void send(const std::string& body) {
    Message message{.to = "bob"};
    message.body = body;
    ASSERT_OK(alice->send(message));
  }
  std::vector<std::string> bodies() {
    std::vector<std::string> found;
    std::vector<std::string> files = bob->list_inbox().value();
    for (const std::string& file : files) found.push_back(bob->read(file)->message.body);
    return found;
  }
  // Waits until bob has so many: a minute is for a machine under load.
  std::vector<std::string> wait_for(std::size_t count) {
    for (int tries = 0; tries < 6000 && bob->list_inbox()->size() < count; ++tries) ::usleep(10'000);
    return bodies();
  }

  ::warren::testing::TempDir dir;
  JumpingClock clock;
  std::unique_ptr<Root> root;
  std::unique_ptr<Client> alice, bob;
  std::unique_ptr<Relay> relay;
  Fd stopping;
  std::thread thread;
};

TEST_F(RelayTest, AClockThatIsSetBackAndForthKeepsTheOrderAndLosesNothing) {
  start();
  std::vector<std::string> wanted;
  for (std::int64_t jump : {std::int64_t{0}, -kDay, 400 * kDay, -300 * kDay, kDay}) {
    clock.jump_ns(jump);
    wanted.push_back(std::to_string(wanted.size()));
    send(wanted.back());
    EXPECT_EQ(wait_for(wanted.size()), wanted);  // sorted by name: stamps never go back
  }
}

TEST_F(RelayTest, AClockThatIsSetBackWhileTheRelayIsDownKeepsTheOrder) {
  start();
  send("0");
  wait_for(1);
  stop();
  clock.jump_ns(-kDay);
  start();
  send("1");
  EXPECT_EQ(wait_for(2), (std::vector<std::string>{"0", "1"}));
}

// Until bob's only message is in that state.
std::string state_of_only_message(const Root& root, Clock& clock, std::string_view wanted) {
  std::string state;
  for (int tries = 0; tries < 6000 && state != wanted; ++tries, ::usleep(10'000)) {
    auto ledger = std::move(Ledger::open(root.ledger_path(), LedgerUse::kRead, clock)).value();
    std::vector<StoredMessage> messages = ledger->list_messages({}).value();
    auto to_bob = std::ranges::find_if(messages, [](const StoredMessage& one) { return one.message.target == "bob"; });
    if (to_bob == messages.end()) continue;
    std::vector<Delivery> deliveries = ledger->list_deliveries(to_bob->message.id).value();
    if (!deliveries.empty()) state = name_of(deliveries.front().state);
    if (state == "read" || state == "dead") break;
  }
  return state;
}

TEST_F(RelayTest, AMessageThatWasReadWhileTheRelayWasDownIsReadEvenIfTheClockWasSetBackBeforeItsDelivery) {
  clock.jump_ns(-kDay);  // so the inbox seems to be newer than what is delivered to it
  start();
  send("x");
  EXPECT_EQ(wait_for(1).size(), 1U);
  EXPECT_EQ(state_of_only_message(*root, clock, "delivered"), "delivered");
  stop();
  for (const std::string& file : bob->list_inbox().value()) ASSERT_OK(bob->take(file));
  start();
  EXPECT_EQ(state_of_only_message(*root, clock, "read"), "read");
}

TEST_F(RelayTest, AMessageInAnInboxThatWasReplacedIsDeadEvenIfTheClockWasSetBackSinceItsDelivery) {
  clock.jump_ns(kDay);
  start();
  send("x");
  EXPECT_EQ(wait_for(1).size(), 1U);
  EXPECT_EQ(state_of_only_message(*root, clock, "delivered"), "delivered");
  stop();
  clock.jump_ns(-kDay);  // so the new inbox seems to be older than what was delivered to the old one
  std::filesystem::rename(dir.file("root/agents/bob"), dir.file("moved"));
  bob = std::move(Client::open(*root, "bob", clock)).value();
  start();
  EXPECT_EQ(state_of_only_message(*root, clock, "dead"), "dead");
}

TEST_F(RelayTest, ALedgerOfAnEarlierVersionLearnsWhichInboxHasItsMessages) {
  start();
  send("x");
  EXPECT_EQ(wait_for(1).size(), 1U);
  EXPECT_EQ(state_of_only_message(*root, clock, "delivered"), "delivered");
  stop();
  {
    auto engine = std::move(open_sqlite(root->ledger_path(), EngineUse::kWrite)).value();
    ASSERT_OK(engine->execute("ALTER TABLE deliveries DROP COLUMN inbox_born"));
  }
  EXPECT_EQ(state_of_only_message(*root, clock, "delivered"), "delivered");  // by a reader that finds no such column
  start();
  auto is_learned = [&] {
    auto engine = std::move(open_sqlite(root->ledger_path(), EngineUse::kRead)).value();
    Result<Statement> find = engine->prepare("SELECT 1 FROM deliveries WHERE recipient = 'bob' AND inbox_born > 0");
    return find.ok() && find->find_integer().value().has_value();
  };
  for (int tries = 0; tries < 6000 && !is_learned(); ++tries) ::usleep(10'000);
  EXPECT_TRUE(is_learned());
  stop();
  std::filesystem::rename(dir.file("root/agents/bob"), dir.file("moved"));
  bob = std::move(Client::open(*root, "bob", clock)).value();
  start();
  EXPECT_EQ(state_of_only_message(*root, clock, "dead"), "dead");
}

TEST_F(RelayTest, WhichInboxHasItsMessagesIsLearnedAfterARoundThatFailed) {
  start();
  send("x");
  EXPECT_EQ(wait_for(1).size(), 1U);
  EXPECT_EQ(state_of_only_message(*root, clock, "delivered"), "delivered");
  stop();
  auto engine = std::move(open_sqlite(root->ledger_path(), EngineUse::kWrite)).value();
  ASSERT_OK(engine->execute("UPDATE deliveries SET inbox_born = NULL"));
  ASSERT_OK(
      engine->execute("CREATE TRIGGER refused BEFORE UPDATE OF inbox_born ON deliveries"
                      " BEGIN SELECT RAISE(ABORT, 'refused'); END"));
  start();
  std::string log = root->path() + "/relay.log";
  auto has_failed = [&] { return read_host_file(log, 1 << 20)->find("round_failed") != std::string::npos; };
  for (int tries = 0; tries < 6000 && !has_failed(); ++tries) ::usleep(10'000);
  ASSERT_TRUE(has_failed());
  ASSERT_OK(engine->execute("DROP TRIGGER refused"));
  auto is_learned = [&] {
    Result<Statement> find = engine->prepare("SELECT 1 FROM deliveries WHERE recipient = 'bob' AND inbox_born > 0");
    return find.ok() && find->find_integer().value().has_value();
  };
  for (int tries = 0; tries < 6000 && !is_learned(); ++tries) ::usleep(10'000);
  EXPECT_TRUE(is_learned());
}

TEST_F(RelayTest, ADeliveryThatIsTriedAgainDoesNotWaitForAClockThatWasSetBack) {
  start();
  std::string inbox = root->path() + "/agents/bob/inbox";
  std::string away = root->path() + "/agents/bob/away";
  ASSERT_EQ(::rename(inbox.c_str(), away.c_str()), 0);
  ASSERT_EQ(::symlink("/", inbox.c_str()), 0);
  send("0");
  std::string log = root->path() + "/relay.log";
  auto has_failed = [&] { return read_host_file(log, 1 << 20)->find("delivery_failed") != std::string::npos; };
  for (int tries = 0; tries < 6000 && !has_failed(); ++tries) ::usleep(10'000);
  clock.jump_ns(-kDay);
  ASSERT_EQ(::unlink(inbox.c_str()), 0);
  ASSERT_EQ(::rename(away.c_str(), inbox.c_str()), 0);
  EXPECT_EQ(wait_for(1), std::vector<std::string>{"0"});
}

// A killed relay left more than one page of deliveries: receipts for the first must not overtake the last.
TEST_F(RelayTest, AStartDeliversEverythingBeforeItSendsReceipts) {
  constexpr int kCount = 700;
  {
    auto ledger = std::move(Ledger::open(root->ledger_path(), LedgerUse::kServe, clock)).value();
    Mailroom mailroom(*root);
    auto transaction = std::move(ledger->begin()).value();
    for (const char* name : {"alice", "bob"}) ASSERT_OK(ledger->put_agent({name, 0, 0, "active", ""}));
    for (int i = 0; i < kCount; ++i) {
      bool is_last = i == kCount - 1;
      std::string id = fmt::format("{}/{}", is_last ? "bob" : "alice", i);
      MessageRow row{.id = id, .agent = "a", .direction = "outbox", .path = id, .status = "processing"};
      Delivery delivery{.message_id = id, .recipient = is_last ? "alice" : "bob", .wants_receipt = !is_last};
      delivery.inbox_name = make_name(i);
      ASSERT_OK(ledger->add_message(row));
      ASSERT_OK(ledger->add_delivery(delivery));
      ASSERT_OK(mailroom.stage(delivery, "TO: alice\n\nx"));
    }
    ASSERT_OK(mailroom.sync_staged());
    ASSERT_OK(transaction.commit());
  }
  auto watch = std::move(DirWatch::open()).value();
  ASSERT_TRUE(watch.add(root->open_inbox("alice")->get()));
  start();
  for (int tries = 0; tries < 6000 && alice->list_inbox()->size() < kCount; ++tries) ::usleep(10'000);
  std::vector<std::string> came;
  for (const DirWatch::Event& event : watch.take()) {
    if (event.is_name && is_message_file(event.name)) came.push_back(event.name);
  }
  ASSERT_EQ(came.size(), std::size_t{kCount});
  EXPECT_EQ(came.front(), make_name(kCount - 1));
  EXPECT_TRUE(std::is_sorted(came.begin(), came.end()));
}

// A receiver must not see a later message without the ones before it, however large the inbox.
TEST_F(RelayTest, AListOfALargeInboxHasNoGapsWhileItGrows) {
  constexpr int kCount = 3000;
  std::string inbox = root->path() + "/agents/bob/inbox/";
  std::string draft = root->path() + "/tmp/draft";
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int i = 0; i < kCount; ++i) {
      std::ofstream(draft) << "TO: bob\n\nx";
      ASSERT_EQ(::rename(draft.c_str(), (inbox + make_name(i)).c_str()), 0);
    }
    is_over = true;
  });
  while (!is_over) {
    std::vector<std::string> files = *bob->list_inbox();
    for (std::size_t i = 0; i < files.size(); ++i) ASSERT_EQ(files[i], make_name(static_cast<int>(i)));
  }
  writer.join();
  EXPECT_EQ(bob->list_inbox()->size(), kCount);
}

}  // namespace
}  // namespace warren::relay
