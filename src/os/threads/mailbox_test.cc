#include "os/threads/mailbox.h"

#include <thread>

#include <poll.h>

#include <gtest/gtest.h>

namespace warren {
namespace {

bool is_readable(int fd, int timeout_ms = 0) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, timeout_ms) == 1;
}

TEST(Mailbox, IsReadableWhileThereIsSomethingToTake) {
  auto mailbox = std::move(Mailbox<int>::open()).value();
  EXPECT_FALSE(is_readable(mailbox->fd()));
  EXPECT_TRUE(mailbox->take().empty());
  mailbox->put(1);
  mailbox->put(2);
  EXPECT_TRUE(is_readable(mailbox->fd()));
  EXPECT_EQ(mailbox->take(), (std::vector<int>{1, 2}));
  EXPECT_FALSE(is_readable(mailbox->fd()));
  mailbox->put(3);
  EXPECT_EQ(mailbox->take(), std::vector<int>{3});
}

TEST(Mailbox, NothingPutByAnotherThreadIsMissed) {
  constexpr int kCount = 10'000;
  auto mailbox = std::move(Mailbox<int>::open()).value();
  std::thread sender([&] {
    for (int i = 0; i < kCount; ++i) mailbox->put(i);
  });
  std::vector<int> all;
  while (all.size() < kCount && is_readable(mailbox->fd(), 60'000)) {
    std::vector<int> some = mailbox->take();
    EXPECT_FALSE(some.empty());
    all.insert(all.end(), some.begin(), some.end());
  }
  sender.join();
  ASSERT_EQ(all.size(), kCount);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(all[i], i);
}

}  // namespace
}  // namespace warren
