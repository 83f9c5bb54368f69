#include "sandbox/message.h"

#include <array>
#include <string>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/pipe.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(Message, FieldsComeOutAsTheyWentIn) {
  auto pair = open_message_pair().value();
  std::array<std::string, 4> fields{"verb", "", "a\nb \xff", "last"};
  ASSERT_TRUE(send_message(pair.first.get(), fields).ok());
  Result<Message> message = receive_message(pair.second.get());
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->fields, (std::vector<std::string>{"verb", "", "a\nb \xff", "last"}));
  EXPECT_TRUE(message->fds.empty());
}

TEST(Message, DescriptorsComeAlongAndAreOurs) {
  auto pair = open_message_pair().value();
  Pipe pipe = open_pipe().value();
  std::array<std::string, 1> fields{"fds"};
  std::array<int, 2> fds{pipe.reader.get(), pipe.writer.get()};
  ASSERT_TRUE(send_message(pair.first.get(), fields, fds).ok());
  Result<Message> message = receive_message(pair.second.get());
  ASSERT_EQ(message->fds.size(), 2U);
  ASSERT_EQ(::write(message->fds[1].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(pipe.reader.get(), &byte, 1), 1);
}

TEST(Message, AnErrorComesOutAsOne) {
  auto pair = open_message_pair().value();
  ASSERT_TRUE(send_error(pair.first.get(), Error(Code::kBusy, "what", "hint")).ok());
  Result<Message> message = receive_message(pair.second.get());
  ASSERT_EQ(error_of(message), Code::kBusy);
  EXPECT_EQ(message.error().message(), "what");
  EXPECT_EQ(message.error().hint(), "hint");
}

TEST(Message, TheEndOfTheOtherSideIsUnavailable) {
  auto pair = open_message_pair().value();
  pair.first = Fd();
  EXPECT_EQ(error_of(receive_message(pair.second.get())), Code::kUnavailable);
  std::array<std::string, 1> fields{"verb"};
  EXPECT_EQ(error_of(send_message(pair.second.get(), fields)), Code::kUnavailable);
}

TEST(Message, OneThatIsTooLargeIsNotSent) {
  auto pair = open_message_pair().value();
  std::array<std::string, 1> fields{std::string(1 << 20, 'x')};
  EXPECT_EQ(error_of(send_message(pair.first.get(), fields)), Code::kTooLarge);
}

TEST(Message, BytesThatAreNoMessageAreAnError) {
  auto pair = open_message_pair().value();
  ASSERT_EQ(::send(pair.first.get(), "error\0999\0a\0b", 13, 0), 13);
  EXPECT_EQ(error_of(receive_message(pair.second.get())), Code::kIo);
}

}  // namespace
}  // namespace warren
