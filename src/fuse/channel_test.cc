#include "fuse/channel.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

std::vector<std::byte> message_of(std::uint32_t opcode, Bytes body) {
  fuse_in_header header{
      .len = static_cast<std::uint32_t>(sizeof header + body.size()), .opcode = opcode, .unique = 42, .nodeid = 7};
  std::vector<std::byte> message(header.len);
  std::memcpy(message.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(message.data() + sizeof header, body.data(), body.size());
  return message;
}

TEST(Request, IsAViewOfWhatWasReceived) {
  std::vector<std::byte> message = message_of(FUSE_LOOKUP, as_bytes("name"));
  std::optional<Request> request = Request::parse(message);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->opcode(), FUSE_LOOKUP);
  EXPECT_EQ(request->node(), 7U);
  EXPECT_EQ(as_text(request->rest()), "name");
}

TEST(Request, ShorterThanAHeaderIsNone) {
  std::vector<std::byte> message = message_of(FUSE_STATFS, {});
  EXPECT_TRUE(Request::parse(message).has_value());
  EXPECT_FALSE(Request::parse(Bytes(message).first(sizeof(fuse_in_header) - 1)).has_value());
  EXPECT_FALSE(Request::parse({}).has_value());
}

TEST(Request, OfAnotherLengthThanItSaysIsNone) {
  std::vector<std::byte> message = message_of(FUSE_LOOKUP, as_bytes("name"));
  EXPECT_FALSE(Request::parse(Bytes(message).first(message.size() - 1)).has_value());
  message.push_back(std::byte{0});
  EXPECT_FALSE(Request::parse(message).has_value());
}

TEST(Request, GivesItsBodyAndWhatFollowsIt) {
  fuse_mkdir_in mkdir{.mode = 0755, .umask = 022};
  std::vector<std::byte> body(bytes_of(mkdir).begin(), bytes_of(mkdir).end());
  Bytes name = as_bytes("name");
  body.insert(body.end(), name.begin(), name.end());
  std::vector<std::byte> message = message_of(FUSE_MKDIR, body);
  Request request = Request::parse(message).value();
  Result<const fuse_mkdir_in*> found = request.body<fuse_mkdir_in>();
  ASSERT_OK(found);
  EXPECT_EQ((*found)->mode, 0755U);
  EXPECT_EQ(as_text(request.after<fuse_mkdir_in>()), "name");
}

TEST(Request, TooShortForItsBodyIsRefused) {
  fuse_mkdir_in mkdir{};
  std::vector<std::byte> message = message_of(FUSE_MKDIR, bytes_of(mkdir).first(sizeof mkdir - 1));
  Request request = Request::parse(message).value();
  EXPECT_EQ(error_of(request.body<fuse_mkdir_in>()), Code::kInvalid);
  EXPECT_TRUE(request.after<fuse_mkdir_in>().empty());
}

TEST(TakeName, TakesOneAfterTheOther) {
  using namespace std::string_view_literals;
  Bytes names = as_bytes("old\0new\0"sv);
  EXPECT_EQ(take_name(names).value(), "old");
  EXPECT_EQ(take_name(names).value(), "new");
  EXPECT_TRUE(names.empty());
  EXPECT_EQ(error_of(take_name(names)), Code::kInvalid);
}

TEST(TakeName, WithoutAnEndIsRefused) {
  Bytes names = as_bytes("name");
  EXPECT_EQ(error_of(take_name(names)), Code::kInvalid);
  EXPECT_EQ(as_text(names), "name");
}

// A pair of sockets that preserve message boundaries, as /dev/fuse does.
class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    channel_.emplace(Fd(ends[0]));
    kernel_ = Fd(ends[1]);
  }

  // A message as the kernel receives it, with at most this many bytes after the header.
  struct Answer {
    fuse_out_header header{};
    std::string body;
  };
  Answer next_answer() {
    std::string message(4096, '\0');
    message.resize(read_some(kernel_.get(), as_mutable_bytes(message)).value());
    Answer answer;
    EXPECT_GE(message.size(), sizeof answer.header);
    std::memcpy(&answer.header, message.data(), sizeof answer.header);
    answer.body = message.substr(sizeof answer.header);
    EXPECT_EQ(answer.header.len, message.size());
    return answer;
  }

  std::optional<Channel> channel_;
  Fd kernel_;
  std::vector<std::byte> message_ = message_of(FUSE_STATFS, {});
  Request request_ = Request::parse(message_).value();
};

TEST_F(ChannelTest, ARequestIsReceivedWhole) {
  ASSERT_OK(write_all(kernel_.get(), message_));
  Buffer buffer;
  Bytes received = channel_->receive(buffer).value();
  ASSERT_EQ(received.size(), message_.size());
  EXPECT_EQ(Request::parse(received)->header().unique, 42U);
}

TEST_F(ChannelTest, AnAnswerIsOneMessageInBothItsParts) {
  channel_->answer(request_, as_bytes("first"), as_bytes("second"));
  Answer answer = next_answer();
  EXPECT_EQ(answer.header.unique, 42U);
  EXPECT_EQ(answer.header.error, 0);
  EXPECT_EQ(answer.body, "firstsecond");
}

TEST_F(ChannelTest, ARefusalCarriesTheNegativeErrno) {
  channel_->refuse(request_, ENOENT);
  Answer answer = next_answer();
  EXPECT_EQ(answer.header.error, -ENOENT);
  EXPECT_EQ(answer.body, "");
}

TEST_F(ChannelTest, ANoticeAnswersNothingAndEndsItsNameWithANul) {
  using namespace std::string_view_literals;
  channel_->notify(Notice::kEntry, as_bytes("body"), "name");
  Answer answer = next_answer();
  EXPECT_EQ(answer.header.unique, 0U);
  EXPECT_EQ(answer.header.error, FUSE_NOTIFY_INVAL_ENTRY);
  EXPECT_EQ(answer.body, "bodyname\0"sv);
}

}  // namespace
}  // namespace warren
