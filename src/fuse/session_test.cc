#include "fuse/session.h"

#include <cstring>
#include <thread>
#include <vector>

#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fs/memory/memory_fs.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

// A session whose kernel is the test.
class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    kernel_ = Fd(pair[0]);
    session_ = std::make_unique<Session>(fs_, Fd(pair[1]), SessionOptions{}, [] {});
    serving_ = std::thread([this] { EXPECT_OK(session_->serve()); });
  }

  void TearDown() override {
    session_->stop();
    serving_.join();
  }

  // The error and the body of the answer.
  std::pair<int, std::vector<std::byte>> ask(std::uint32_t opcode, Bytes body) {
    fuse_in_header header{
        .len = static_cast<std::uint32_t>(sizeof header + body.size()), .opcode = opcode, .unique = 1, .nodeid = 1};
    std::vector<std::byte> message(header.len);
    std::memcpy(message.data(), &header, sizeof header);
    std::memcpy(message.data() + sizeof header, body.data(), body.size());
    EXPECT_EQ(::write(kernel_.get(), message.data(), message.size()), static_cast<ssize_t>(message.size()));
    std::vector<std::byte> answer(4096);
    ssize_t got = ::read(kernel_.get(), answer.data(), answer.size());
    fuse_out_header head{};
    EXPECT_GE(got, static_cast<ssize_t>(sizeof head));
    std::memcpy(&head, answer.data(), sizeof head);
    return {-head.error, {answer.begin() + sizeof head, answer.begin() + got}};
  }

  testing::FakeClock clock_{1'700'000'000};
  MemoryFs fs_{clock_};
  Fd kernel_;
  std::unique_ptr<Session> session_;
  std::thread serving_;
};

TEST_F(SessionTest, TheShortFirstRequestOfAnOlderKernelIsAnswered) {
  fuse_init_in in{.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 131'072, .flags = FUSE_ASYNC_READ};
  auto [error, answer] = ask(FUSE_INIT, bytes_of(in).first(16));
  EXPECT_EQ(error, 0);
  ASSERT_EQ(answer.size(), sizeof(fuse_init_out));
  fuse_init_out out{};
  std::memcpy(&out, answer.data(), sizeof out);
  EXPECT_EQ(out.minor, 31U);
  EXPECT_EQ(out.flags, std::uint32_t{FUSE_ASYNC_READ});
  EXPECT_EQ(out.flags2, 0U);
}

TEST_F(SessionTest, AnEmptyFirstRequestIsRefused) { EXPECT_EQ(ask(FUSE_INIT, {}).first, EPROTO); }

}  // namespace
}  // namespace warren
