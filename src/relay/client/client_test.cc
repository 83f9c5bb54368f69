#include "relay/client/client.h"

#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "crypto/digest.h"
#include "os/files/host_files.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/names.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    client = std::move(Client::open(*root, "alice", clock)).value();
  }
  std::string home() { return root->path() + "/agents/alice"; }
  std::vector<std::string> names(const std::string& path) {
    Fd opened = std::move(open_host_dir(path)).value();
    std::vector<HostEntry> entries = std::move(list_host_dir(opened.get())).value();
    std::vector<std::string> out;
    for (const HostEntry& entry : entries) out.push_back(entry.name);
    return out;
  }
  void deliver(const std::string& file, std::string_view text) {
    ASSERT_OK(replace_host_file(home() + "/inbox/.done/draft", text, 0600));
    ASSERT_EQ(::rename((home() + "/inbox/.done/draft").c_str(), (home() + "/inbox/" + file).c_str()), 0);
  }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  std::unique_ptr<Root> root;
  std::unique_ptr<Client> client;
};

TEST_F(ClientTest, OpeningRegistersTheAgentUnderAValidName) {
  EXPECT_EQ(names(home()), (std::vector<std::string>{"inbox", "outbox"}));
  for (const char* bad : {"", "../x", "root", "a/b"})
    EXPECT_EQ(error_of(Client::open(*root, bad, clock)), Code::kInvalid);
}

TEST_F(ClientTest, ASentMessageIsInTheOutboxCompleteAndPrivate) {
  Message message{.to = "bob", .kind = "status", .body = std::string("a\0b\n", 4)};
  std::string id = std::move(client->send(message)).value();
  std::vector<std::string> files = names(home() + "/outbox");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0], ".pending");
  EXPECT_EQ(id, "alice/" + std::string(stem_of(files[1])));
  std::string path = home() + "/outbox/" + files[1];
  EXPECT_EQ(*parse_message(*read_host_file(path, 1000)), message);
  EXPECT_EQ((*find_host_file(path))->st_mode & 07777, 0600U);
  EXPECT_TRUE(names(home() + "/outbox/.pending").empty());
}

TEST_F(ClientTest, NamesSortInSendingOrderEvenIfTheClockStopsOrGoesBack) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(*client->send({.to = "bob"}));
    clock.jump_ns(-1'000'000'000);
  }
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 5U);
}

TEST_F(ClientTest, AnUnreadableMessageIsNotSent) {
  EXPECT_EQ(error_of(client->send({.to = ""})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob\nX: y"})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob", .thread = "x\nKIND: spawn"})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob", .others = {{"X", "y\n\nbody"}}})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob", .others = {{"X: y\nTO", "z"}}})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob", .others = {{"X:Y", "z"}}})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob", .kind = "two words"})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob", .others = {{"A B", "x"}}})), Code::kInvalid);
  EXPECT_EQ(error_of(client->send({.to = "bob", .others = {{"ATTACHMENT", "x"}}})), Code::kInvalid);
  EXPECT_EQ(names(home() + "/outbox").size(), 1U);
  EXPECT_TRUE(names(home() + "/outbox/.pending").empty());
}

TEST_F(ClientTest, AMissingOutboxIsAnErrorAndLeavesNoDraft) {
  ASSERT_EQ(::rmdir((home() + "/outbox/.pending").c_str()), 0);
  ASSERT_EQ(::rmdir((home() + "/outbox").c_str()), 0);
  EXPECT_EQ(error_of(client->send({.to = "bob"})), Code::kNotFound);
}

TEST_F(ClientTest, AnInboxIsReadInOrderAndTaken) {
  deliver("2-aaaaaaaa.msg", "TO: alice\nFROM: bob\nID: bob/2-aaaaaaaa\n\nsecond");
  deliver("1-aaaaaaaa.msg", "TO: alice\nFROM: bob\nID: bob/1-aaaaaaaa\n\nfirst");
  deliver("notes.txt", "x");
  ASSERT_EQ(::mkdir((home() + "/inbox/3-aaaaaaaa.msg").c_str(), 0700), 0);
  EXPECT_EQ(*client->list_inbox(), (std::vector<std::string>{"1-aaaaaaaa.msg", "2-aaaaaaaa.msg"}));
  Received received = std::move(client->read("1-aaaaaaaa.msg")).value();
  EXPECT_EQ(received.sender, "bob");
  EXPECT_EQ(received.id, "bob/1-aaaaaaaa");
  EXPECT_EQ(received.message.body, "first");
  ASSERT_OK(client->take("1-aaaaaaaa.msg"));
  EXPECT_EQ(*client->list_inbox(), (std::vector<std::string>{"2-aaaaaaaa.msg"}));
  EXPECT_EQ(names(home() + "/inbox/.done"), (std::vector<std::string>{"1-aaaaaaaa.msg"}));
  EXPECT_EQ(error_of(client->take("1-aaaaaaaa.msg")), Code::kNotFound);
  EXPECT_EQ(error_of(client->read("1-aaaaaaaa.msg")), Code::kNotFound);
}

TEST_F(ClientTest, ALinkInTheInboxIsNotFollowed) {
  ASSERT_OK(replace_host_file(dir.file("secret"), "TO: alice\n\nsecret", 0600));
  ASSERT_EQ(::symlink(dir.file("secret").c_str(), (home() + "/inbox/1-aaaaaaaa.msg").c_str()), 0);
  EXPECT_TRUE(client->list_inbox()->empty());
  EXPECT_EQ(error_of(client->read("1-aaaaaaaa.msg")), Code::kLoop);
  EXPECT_FALSE(client->read("../../../config.json").ok());
}

TEST_F(ClientTest, AcksAndNacksAreMessagesToTheRelay) {
  deliver(inbox_name("bob/1-aaaaaaaa", 1), "TO: alice\n\nx");
  deliver("2-aaaaaaaa.msg", "TO: alice\n\nx");
  ASSERT_OK(client->acknowledge("bob/1-aaaaaaaa"));
  ASSERT_OK(client->refuse("2-aaaaaaaa.msg", "not mine"));
  std::vector<std::string> files = names(home() + "/outbox");
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(*parse_message(*read_host_file(home() + "/outbox/" + files[1], 1000)),
            (Message{.to = "__orchestrator__", .kind = "ack", .reference = "bob/1-aaaaaaaa"}));
  EXPECT_EQ(*parse_message(*read_host_file(home() + "/outbox/" + files[2], 1000)),
            (Message{.to = "__orchestrator__", .kind = "nack", .reference = "2-aaaaaaaa.msg", .body = "not mine"}));
}

TEST_F(ClientTest, WhatWasNotReceivedCannotBeAnswered) {
  deliver("2-aaaaaaaa.msg", "TO: alice\n\nx");
  for (const char* reference : {"bob/1-aaaaaaaa", "1-aaaaaaaa", "../../../etc/passwd", "", "/", ".msg", "a.msg"}) {
    EXPECT_EQ(error_of(client->acknowledge(reference)), Code::kNotFound) << reference;
    EXPECT_EQ(error_of(client->refuse(reference, "x")), Code::kNotFound) << reference;
  }
  EXPECT_EQ(names(home() + "/outbox"), std::vector<std::string>{".pending"});
  EXPECT_EQ(*client->list_inbox(), std::vector<std::string>{"2-aaaaaaaa.msg"});
}

TEST_F(ClientTest, WhatIsAckedOrNackedLeavesTheInbox) {
  std::string by_id = inbox_name("bob/1-aaaaaaaa", 1);
  deliver(by_id, "TO: alice\n\nx");
  deliver("2-aaaaaaaa.msg", "TO: alice\n\nx");
  deliver("3-aaaaaaaa.msg", "TO: alice\n\nx");
  ASSERT_OK(client->acknowledge("bob/1-aaaaaaaa"));
  ASSERT_OK(client->refuse("2-aaaaaaaa", "not mine"));
  EXPECT_EQ(*client->list_inbox(), std::vector<std::string>{"3-aaaaaaaa.msg"});
  EXPECT_EQ(names(home() + "/inbox/.done"), (std::vector<std::string>{by_id, "2-aaaaaaaa.msg"}));
  ASSERT_OK(client->refuse("2-aaaaaaaa", "again"));
}

TEST_F(ClientTest, WaitingEndsWhenMailArrives) {
  SystemClock real;
  auto waiting = std::move(Client::open(*root, "alice", real)).value();
  EXPECT_FALSE(*waiting->wait_for_mail(std::chrono::milliseconds(1)));
  std::atomic<bool> has_mail = false;
  std::thread waiter([&] { has_mail = *waiting->wait_for_mail(std::chrono::hours(1)); });
  deliver("1-aaaaaaaa.msg", "TO: alice\n\nx");
  waiter.join();
  EXPECT_TRUE(has_mail);
  EXPECT_TRUE(*waiting->wait_for_mail(std::chrono::milliseconds(0)));
  EXPECT_FALSE(*waiting->wait_for_mail(std::chrono::milliseconds(1), "1-aaaaaaaa.msg"));  // that one is excluded
  deliver("2-aaaaaaaa.msg", "TO: alice\n\nx");
  EXPECT_TRUE(*waiting->wait_for_mail(std::chrono::hours(1), "1-aaaaaaaa.msg"));
}

TEST_F(ClientTest, AFileIsAttachedWithItsNameAndNoDirectory) {
  ASSERT_OK(replace_host_file(dir.file("a b.txt"), "content", 0600));
  ASSERT_OK(replace_host_file(dir.file(".hidden"), "hidden", 0600));
  std::string hash = sha256_hex(as_bytes("content"));
  EXPECT_EQ(*client->attach_path(dir.file("a b.txt")), (Attachment{hash, "a b.txt"}));
  EXPECT_EQ(client->attach_path(dir.file(".hidden"))->name, "");
  EXPECT_EQ(error_of(client->attach_path(dir.file("missing"))), Code::kNotFound);
  EXPECT_EQ(error_of(client->attach_path(dir.path())), Code::kIsDirectory);
  Fd out(::open(dir.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_OK(client->fetch({hash, ""}, out.get()));
  EXPECT_EQ(*read_host_file(dir.file("out"), 100), "content");
  EXPECT_EQ(error_of(client->fetch({std::string(64, '0'), ""}, out.get())), Code::kNotFound);
  EXPECT_EQ(error_of(client->fetch({"../../config.json", ""}, out.get())), Code::kInvalid);
}

TEST_F(ClientTest, SavingOverwritesNothingAndLeavesNoPartialFile) {
  ASSERT_OK(replace_host_file(dir.file("name"), "content", 0600));
  Attachment attachment = *client->attach_path(dir.file("name"));
  ASSERT_EQ(::mkdir(dir.file("into").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(dir.file("elsewhere").c_str(), dir.file("into/name").c_str()), 0);
  Fd into = std::move(open_host_dir(dir.file("into"))).value();
  EXPECT_EQ(*client->save(attachment, into.get()), "name-1");
  EXPECT_EQ(*client->save(attachment, into.get()), "name-1");  // it already exists
  EXPECT_EQ(*client->save({attachment.hash, "../x"}, into.get()), attachment.hash);
  EXPECT_FALSE(find_host_file(dir.file("elsewhere"))->has_value());
  EXPECT_EQ(names(dir.file("into")), (std::vector<std::string>{attachment.hash, "name", "name-1"}));
  std::string stored = root->path() + "/attachments/" + attachment.hash.substr(0, 2) + "/" + attachment.hash;
  ASSERT_OK(replace_host_file(stored, "c0ntent", 0600));
  EXPECT_EQ(error_of(client->save({attachment.hash, "bad"}, into.get())), Code::kCorrupt);
  EXPECT_EQ(names(dir.file("into")).size(), 3U);
}

}  // namespace
}  // namespace warren::relay
