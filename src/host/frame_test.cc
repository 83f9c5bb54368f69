#include "host/frame.h"

#include <sys/socket.h>

#include <thread>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/mutations.h"

namespace warren {
namespace {

using testing::error_of;
using Milliseconds = FrameSocket::Milliseconds;

struct Pair {
  Pair() {
    int both[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);
    left = std::make_unique<FrameSocket>(Fd(both[0]));
    right = std::make_unique<FrameSocket>(Fd(both[1]));
  }
  std::unique_ptr<FrameSocket> left;
  std::unique_ptr<FrameSocket> right;
};

TEST(Frame, ArrivesAsItWasSent) {
  Pair pair;
  std::string body(3 << 20, 'x');
  std::thread sender([&] {
    EXPECT_OK(pair.left->write({{"op", "write"}}, body, Milliseconds(60'000)));
    EXPECT_OK(pair.left->write(Json::object(), {}, Milliseconds(60'000)));
    pair.left->close_both();
  });
  Result<std::optional<Frame>> first = pair.right->read({});
  ASSERT_OK(first);
  ASSERT_TRUE(*first);
  EXPECT_EQ((*first)->head, Json({{"op", "write"}}));
  EXPECT_EQ((*first)->body, body);
  EXPECT_TRUE(pair.right->read({})->has_value());
  EXPECT_FALSE(pair.right->read({})->has_value());
  sender.join();
}

TEST(Frame, LimitsAndTimesHold) {
  Pair pair;
  EXPECT_EQ(error_of(pair.left->read({.first_byte = Milliseconds(1)})), Code::kTimeout);
  ASSERT_EQ(::send(pair.right->fd(), "\0\0\0", 3, 0), 3);
  EXPECT_EQ(error_of(pair.left->read({.rest = Milliseconds(1)})), Code::kTimeout);
  Pair large;
  ASSERT_OK(large.left->write({{"a", "b"}}, "12345", Milliseconds(1000)));
  EXPECT_EQ(error_of(large.right->read({.body_bytes = 4})), Code::kTooLarge);
  Pair refused;
  ASSERT_OK(refused.left->write({{"a", "b"}}, "12345", Milliseconds(1000)));
  auto admit = [](std::size_t bytes) -> Status { return Error(Code::kBusy, std::to_string(bytes)); };
  EXPECT_EQ(error_of(refused.right->read({.admit = admit})), Code::kBusy);
  Pair full;
  EXPECT_EQ(error_of(full.left->write(Json::object(), std::string(8 << 20, 'x'), Milliseconds(1))), Code::kTimeout);
  Pair cut;
  ASSERT_EQ(::send(cut.right->fd(), "\0\0\0\2\0\0\0\0{", 9, 0), 9);
  cut.right->close_both();
  EXPECT_EQ(error_of(cut.left->read({})), Code::kInvalid);
}

TEST(Frame, AnInterruptedReadEndsAndAnAnswerIsStillSent) {
  Pair pair;
  std::thread reader([&] {
    EXPECT_FALSE(pair.left->read({})->has_value());
    EXPECT_OK(pair.left->write({{"ok", true}}, {}, Milliseconds(60'000)));
  });
  pair.left->interrupt();
  reader.join();
  EXPECT_TRUE(pair.right->read({})->has_value());
}

TEST(Frame, AMutatedStreamEndsInFramesOrAnError) {
  const std::string head = R"({"op": "write", "path": "/mem/working/x", "ttl_ms": 5})";
  std::string frame("\0\0\0\0\0\0\0\5", 8);
  frame[3] = static_cast<char>(head.size());
  frame += head + "bytes";
  testing::Mutations mutations(3);
  for (int i = 0; i < 5'000; ++i) {
    std::string sent = mutations.of(frame + frame);
    Pair pair;
    ASSERT_EQ(::send(pair.left->fd(), sent.data(), sent.size(), MSG_NOSIGNAL), static_cast<ssize_t>(sent.size()));
    pair.left->close_both();
    std::size_t received = 0;
    for (;;) {
      Result<std::optional<Frame>> read = pair.right->read({.rest = Milliseconds(60'000)});
      if (!read.ok() || !*read) break;
      EXPECT_TRUE((*read)->head.is_object());
      received += (*read)->body.size();
    }
    EXPECT_LE(received, sent.size());
  }
}

TEST(Frame, NamesAreBytes) {
  for (std::string name : {std::string("plain"), std::string("\xff\0x", 3), std::string("ä"), std::string()}) {
    Json object = Json::object();
    set_frame_bytes(object, "path", name);
    Result<Json> sent = parse_json(dump_json(object));
    ASSERT_OK(sent);
    EXPECT_EQ(*get_frame_bytes(*sent, "path"), name);
  }
  for (const Json& bad :
       {Json::object(), Json({{"path", 1}}), Json({{"path", "a"}, {"path64", "YQ=="}}), Json({{"path64", "%"}})}) {
    EXPECT_EQ(error_of(get_frame_bytes(bad, "path")), Code::kInvalid);
  }
}

TEST(Frame, ErrorsSurviveTheWay) {
  Error error = error_of_head(error_head(Error(Code::kDenied, "no", "ask")));
  EXPECT_EQ(error.code(), Code::kDenied);
  EXPECT_EQ(error.message(), "no");
  EXPECT_EQ(error.hint(), "ask");
  EXPECT_EQ(error_of_head(Json::object()).code(), Code::kIo);
  EXPECT_EQ(error_of_head({{"error", {{"code", "new_code"}, {"message", "m"}}}}).message(), "m");
}

}  // namespace
}  // namespace warren
