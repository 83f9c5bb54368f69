#include "net/hangup_watch.h"

#include <future>

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::net {
namespace {

struct SocketPair {
  SocketPair() {
    int both[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);
    ours = Fd(both[0]);
    theirs = Fd(both[1]);
  }
  Fd ours;
  Fd theirs;
};

TEST(HangupWatch, ReportsAClientThatIsGoneAlsoIfWhatItSentWasNotRead) {
  auto watch = std::move(HangupWatch::start()).take_value();
  SocketPair sockets;
  std::promise<void> gone;
  ASSERT_EQ(::send(sockets.theirs.get(), "more", 4, 0), 4);
  EXPECT_NE(watch->add(sockets.ours.get(), [&] { gone.set_value(); }), 0U);
  sockets.theirs = Fd();
  gone.get_future().wait();
}

TEST(HangupWatch, ReportsNothingOfWhatWasRemoved) {
  auto watch = std::move(HangupWatch::start()).take_value();
  SocketPair removed;
  SocketPair other;
  std::promise<void> gone;
  watch->remove(watch->add(removed.ours.get(), [] { ADD_FAILURE() << "was removed"; }));
  removed.theirs = Fd();
  EXPECT_NE(watch->add(other.ours.get(), [&] { gone.set_value(); }), 0U);
  other.theirs = Fd();
  gone.get_future().wait();
  watch->stop();
  EXPECT_EQ(watch->add(other.ours.get(), [] { ADD_FAILURE() << "it has stopped"; }), 0U);
}

}  // namespace
}  // namespace warren::net
