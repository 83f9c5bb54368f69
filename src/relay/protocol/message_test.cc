#include "relay/protocol/message.h"

#include <random>

#include <gtest/gtest.h>

#include "crypto/digest.h"
#include "testing/matchers.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

TEST(Message, HeadersAreReadAndTheBodyIsKeptToTheByte) {
  Result<Message> read = parse_message(std::string_view(
      "to: Bob\nKind: ACK\nTHREAD:  a b \nPRIORITY: 0\nX-Mine: 1:2\nx-mine: 3\n\n\nbody\r\n\0end", 79));
  ASSERT_OK(read);
  EXPECT_EQ(read->to, "Bob");
  EXPECT_EQ(read->kind, "ack");
  EXPECT_EQ(read->thread, "a b");
  EXPECT_EQ(read->priority, 0);
  ASSERT_EQ(read->others.size(), 2U);
  EXPECT_EQ(read->others[0], (Header{"X-Mine", "1:2"}));
  EXPECT_EQ(read->body.substr(0, 7), "\nbody\r\n");
}

TEST(Message, LinesMayEndWithCarriageReturns) {
  Result<Message> read = parse_message("TO: Bob\r\nKIND: status\r\n\r\nx\r\n");
  ASSERT_OK(read);
  EXPECT_EQ(read->to, "Bob");
  EXPECT_EQ(read->kind, "status");
  EXPECT_EQ(read->body, "x\r\n");
}

TEST(Message, AnInvalidMessageIsRefused) {
  for (std::string_view bad :
       {"", "\n", "TO: a", "TO: a\n", "TO:\n\n", "TO: a\nTO: b\n\n", "to: a\nTo: a\n\n", "KIND: x\n\n",
        "TO: a\nno colon\n\n", "TO: a\n: x\n\n", "TO: a\nA B: x\n\n", "TO: a\nPRIORITY: 10\n\n",
        "TO: a\nPRIORITY: -1\n\n", "TO: a\nPRIORITY:\n\n", "TO: a\nKIND: two words\n\n", "TO: a\nKIND:\n\n",
        "TO: a\nRECEIPT: maybe\n\n", "TO: a\x01\n\n", "TO: a\nCHECKSUM: md5:1\n\n"}) {
    EXPECT_EQ(error_of(parse_message(bad)), Code::kInvalid) << bad;
  }
}

TEST(Message, SixtyFourHeadersOfEightKibibytesAreTheMost) {
  std::string text = "TO: a\n";
  for (int i = 0; i < 63; ++i) text += "X: y\n";
  EXPECT_OK(parse_message(text + "\n"));
  EXPECT_EQ(error_of(parse_message(text + "X: y\n\n")), Code::kInvalid);
  EXPECT_OK(parse_message("TO: a\nX: " + std::string(kHeaderBytes - 3, 'y') + "\n\n"));
  EXPECT_EQ(error_of(parse_message("TO: a\nX: " + std::string(kHeaderBytes - 2, 'y') + "\n\n")), Code::kInvalid);
}

TEST(Message, WritingNeverMakesALineLongerThanAllowed) {
  for (std::size_t value_bytes : {kHeaderBytes - 3, kHeaderBytes - 2}) {
    std::string text = "TO: a\nX:" + std::string(value_bytes, 'y') + "\n\n";
    Result<Message> read = parse_message(text);
    ASSERT_OK(read);
    Result<Message> again = parse_message(write_message(*read));
    ASSERT_OK(again);
    EXPECT_EQ(*again, *read);
  }
}

TEST(Message, AChecksumIsVerifiedOverTheBody) {
  std::string head = "TO: a\nCHECKSUM: sha256:" + sha256_hex(as_bytes("body")) + "\n\n";
  EXPECT_OK(parse_message(head + "body"));
  EXPECT_EQ(error_of(parse_message(head + "bodY")), Code::kCorrupt);
}

// Truncated or overwritten anywhere: no crash, and an accepted message survives being written and read back.
TEST(Message, MutatedAndTruncatedSamplesNeverCrashTheParser) {
  const std::string samples[] = {
      "TO: Lead\n\nACK: Task received and understood.\n",
      "TO: *\r\nKIND: nack\r\nREFERENCE: a/1-deadbeef\r\nRECEIPT: yes\r\nTHREAD: t\r\nPRIORITY: 3\r\nX: \t "
      "y\r\n\r\nbody\n",
      "TO: a\nCHECKSUM: sha256:" + sha256_hex(as_bytes("b")) + "\n\nb",
  };
  std::mt19937 random(20261115);
  int accepted = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string text = samples[random() % 3];
    for (unsigned changes = random() % 4; changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random());
    if (random() % 4 == 0) text.resize(random() % text.size());
    if (random() % 8 == 0) text.insert(random() % (text.size() + 1), ":\n\r\n");
    Result<Message> read = parse_message(text);
    if (!read.ok()) continue;
    ++accepted;
    Result<Message> again = parse_message(write_message(*read));
    ASSERT_OK(again);
    ASSERT_EQ(*again, *read) << text;
  }
  EXPECT_GT(accepted, 10'000);
}

}  // namespace
}  // namespace warren::relay
