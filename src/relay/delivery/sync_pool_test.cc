#include "relay/delivery/sync_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

class SyncPoolTest : public ::testing::Test {
 protected:
  std::vector<Fd> make_files(int count) {
    std::vector<Fd> files;
    for (int i = 0; i < count; ++i) {
      files.emplace_back(::open(dir.file(std::to_string(i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      EXPECT_TRUE(files.back().is_open());
    }
    return files;
  }
  bool is_awake() {
    pollfd one{pool.fd(), POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
  }

  ::warren::testing::TempDir dir;
  SyncPool pool;
};

TEST_F(SyncPoolTest, SyncsManyFilesOrOneOrNone) {
  std::vector<Fd> files = make_files(40);
  std::vector<int> numbers;
  EXPECT_OK(pool.sync(numbers));
  numbers.push_back(files.front().get());
  EXPECT_OK(pool.sync(numbers));
  for (const Fd& file : files) numbers.push_back(file.get());
  EXPECT_OK(pool.sync(numbers));
  EXPECT_FALSE(is_awake());
  EXPECT_TRUE(pool.is_over(*pool.begin({})));
  EXPECT_OK(pool.sync(numbers));
}

TEST_F(SyncPoolTest, AFailedSyncFailsOnlyItsBatch) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  Fd reading(ends[0]);
  Fd writing(ends[1]);
  std::vector<Fd> files = make_files(3);
  std::vector<int> bad = {files[0].get(), reading.get(), files[1].get()};  // a pipe cannot be synced
  EXPECT_FALSE(pool.sync(bad).ok());
  std::vector<int> good = {files[0].get(), files[1].get()};
  EXPECT_OK(pool.sync(good));
  auto begun = pool.begin(make_files(3));
  EXPECT_OK(pool.wait(*begun));
}

TEST_F(SyncPoolTest, AStartedBatchWakesTheCallerAndClosesItsFiles) {
  std::vector<Fd> files = make_files(20);
  int number = files.front().get();
  auto batch = pool.begin(std::move(files));
  pollfd one{pool.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&one, 1, 60'000), 1);
  EXPECT_TRUE(pool.is_over(*batch));
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_OK(pool.wait(*batch));
  pool.clear();
  EXPECT_FALSE(is_awake());
}

TEST_F(SyncPoolTest, EndsWhileSyncsAreRunning) {
  auto other = std::make_unique<SyncPool>();
  std::vector<std::shared_ptr<SyncRequest>> batches;
  for (int i = 0; i < 10; ++i) batches.push_back(other->begin(make_files(20)));
  other.reset();
  for (const auto& batch : batches) EXPECT_EQ(batch->unfinished, 0U);
}

}  // namespace
}  // namespace warren::relay
