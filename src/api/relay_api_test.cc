// The public API for messages, with a relay that runs in another thread.
#include <warren/v1/relay.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <sys/eventfd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "os/fd.h"
#include "relay/relay.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

constexpr std::chrono::minutes kLong{1};

class RelayApi : public ::testing::Test {
 protected:
  RelayApi() : relay(std::move(relay::Relay::start(root, clock)).value()) {
    thread = std::thread([this] { served = relay->run(stop.get()); });
  }
  ~RelayApi() override {
    ::eventfd_write(stop.get(), 1);
    thread.join();
    EXPECT_OK(served);
  }
  std::unique_ptr<v1::RelayClient> client(const std::string& agent) {
    return std::move(v1::RelayClient::open({.root = root, .agent = agent, .registers = v1::Register::kYes})).value();
  }
  // The only message in the inbox, once there is one.
  static v1::RelayMail next(v1::RelayClient& of) {
    EXPECT_TRUE(of.wait_for_mail(kLong).value());
    return of.read(of.list_inbox().value().at(0)).value();
  }

  testing::TempDir dir;
  SystemClock clock;
  std::string root = dir.file("relay");
  std::unique_ptr<relay::Relay> relay;
  Fd stop{::eventfd(0, EFD_CLOEXEC)};
  Status served = Ok{};
  std::thread thread;
};

TEST_F(RelayApi, AMessageArrivesAsItWasSentAndIsAnswered) {
  auto alice = client("alice");
  auto bob = client("bob");
  v1::RelayMessage message{.to = "bob", .thread = "build-17", .body = std::string("any\0bytes", 9)};
  message.priority = 3;
  message.headers = {{"COLOUR", "blue"}};
  message.wants_receipt = true;
  std::string id = alice->send(message).value();
  v1::RelayMail mail = next(*bob);
  EXPECT_EQ(mail.id, id);
  EXPECT_EQ(mail.from, "alice");
  EXPECT_EQ(mail.message.body, message.body);
  EXPECT_EQ(mail.message.thread, "build-17");
  EXPECT_EQ(mail.message.priority, 3);
  ASSERT_EQ(mail.message.headers.size(), 1U);
  EXPECT_EQ(mail.message.headers[0].value, "blue");
  EXPECT_GT(mail.delivered_at_us, 1'500'000'000'000'000);
  ASSERT_OK(bob->acknowledge(mail.id));
  EXPECT_TRUE(bob->list_inbox().value().empty());
  for (bool is_acked = false; !is_acked;) {  // each receipt is an event
    v1::RelayMail receipt = next(*alice);
    EXPECT_EQ(receipt.message.reference, id);
    is_acked = receipt.message.headers.at(0).value == "acked";
    ASSERT_OK(alice->take(receipt.file));
  }
  std::vector<v1::RelayDelivery> deliveries = alice->deliveries(id).value();
  ASSERT_EQ(deliveries.size(), 1U);
  EXPECT_EQ(deliveries[0].recipient, "bob");
  EXPECT_EQ(deliveries[0].state, "acked");
}

TEST_F(RelayApi, ARefusedMessageSaysWhy) {
  auto alice = client("alice");
  auto bob = client("bob");
  std::string id = alice->send({.to = "bob", .wants_receipt = true, .body = "x"}).value();
  v1::RelayMail mail = next(*bob);
  ASSERT_OK(bob->refuse(mail.file, "not mine"));
  v1::RelayMail receipt;
  do {
    receipt = next(*alice);
    ASSERT_OK(alice->take(receipt.file));
  } while (receipt.message.headers.at(0).value != "nacked");
  EXPECT_EQ(alice->deliveries(id).value().at(0).error, "not mine");
}

TEST_F(RelayApi, AttachmentsTravelBesideTheMessage) {
  auto alice = client("alice");
  auto bob = client("bob");
  std::ofstream(dir.file("report.txt")) << "all tests passed";
  v1::RelayAttachment attached = alice->attach(dir.file("report.txt")).value();
  EXPECT_EQ(attached.name, "report.txt");
  ASSERT_OK(alice->send({.to = "bob", .attachments = {attached}}));
  v1::RelayMail mail = next(*bob);
  ASSERT_EQ(mail.message.attachments.size(), 1U);
  std::filesystem::create_directories(dir.file("in"));
  EXPECT_EQ(bob->save(mail.message.attachments[0], dir.file("in")).value(), "report.txt");
  std::ifstream in(dir.file("in/report.txt"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "all tests passed");
}

TEST_F(RelayApi, BadInputIsRefused) {
  EXPECT_EQ(error_of(v1::RelayClient::open({.root = dir.file("nowhere"), .agent = "alice"})), Code::kNotFound);
  EXPECT_EQ(error_of(v1::RelayClient::open({.root = root, .agent = "alice"})), Code::kNotFound);  // not registered
  EXPECT_EQ(error_of(v1::RelayClient::open({.root = root, .agent = "../x"})), Code::kInvalid);
  auto alice = client("alice");
  EXPECT_EQ(error_of(alice->send({.to = "bob\nTOKEN: x"})), Code::kInvalid);
  EXPECT_EQ(error_of(alice->send({.to = "bob", .headers = {{"A", "b\nc"}}})), Code::kInvalid);
  EXPECT_EQ(error_of(alice->read("../../bob/inbox/1-aaaaaaaa.msg")), Code::kInvalid);
  EXPECT_EQ(error_of(alice->take("../outbox")), Code::kInvalid);
  EXPECT_EQ(error_of(alice->take("1-aaaaaaaa.msg")), Code::kNotFound);
  EXPECT_EQ(error_of(alice->deliveries("alice/1-aaaaaaaa")), Code::kNotFound);
  EXPECT_FALSE(alice->wait_for_mail(std::chrono::milliseconds(0)).value());
}

}  // namespace
}  // namespace warren
