#include "os/files/watch.h"

#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::TempDir;

class WatchTest : public ::testing::Test {
 protected:
  void SetUp() override { write(); }

  std::string file() const { return directory_.file("watched"); }
  void write() { std::ofstream(file(), std::ios::app) << "x"; }
  void touch() { ASSERT_EQ(::utimensat(AT_FDCWD, file().c_str(), nullptr, 0), 0); }

  bool is_readable(const FileWatch& watch) {
    pollfd readable{watch.fd(), POLLIN, 0};
    return ::poll(&readable, 1, 0) == 1;
  }

  TempDir directory_;
};

TEST_F(WatchTest, ChangesBeforeTheWatchAreNotReported) {
  FileWatch watch = FileWatch::open(file()).value();
  EXPECT_FALSE(is_readable(watch));
  FileWatch::Happened happened = watch.take();
  EXPECT_FALSE(happened.written);
  EXPECT_FALSE(happened.touched);
}

TEST_F(WatchTest, AWriteIsReportedOnce) {
  FileWatch watch = FileWatch::open(file()).value();
  write();
  EXPECT_TRUE(is_readable(watch));
  FileWatch::Happened happened = watch.take();
  EXPECT_TRUE(happened.written);
  EXPECT_FALSE(happened.touched);
  EXPECT_FALSE(is_readable(watch));
  EXPECT_FALSE(watch.take().written);
}

TEST_F(WatchTest, AWriteToAnotherFileIsReportedSeparatelyAndIfWanted) {
  std::string other = directory_.file("other");
  std::ofstream(other) << "x";
  FileWatch watch = FileWatch::open(file()).value();
  ASSERT_TRUE(watch.add_touches_of(other, FileWatch::Writes::kNoticed).ok());
  std::ofstream(other, std::ios::app) << "x";
  FileWatch::Happened happened = watch.take();
  EXPECT_TRUE(happened.other_written);
  EXPECT_FALSE(happened.written || happened.touched);
  ASSERT_TRUE(watch.add_touches_of(other).ok());
  std::ofstream(other, std::ios::app) << "x";
  EXPECT_FALSE(watch.take().other_written);
  ASSERT_EQ(::utimensat(AT_FDCWD, other.c_str(), nullptr, 0), 0);
  EXPECT_TRUE(watch.take().touched);
}

TEST_F(WatchTest, ATouchIsReportedButNotAsAWrite) {
  FileWatch watch = FileWatch::open(file()).value();
  touch();
  EXPECT_TRUE(is_readable(watch));
  FileWatch::Happened happened = watch.take();
  EXPECT_TRUE(happened.touched);
  EXPECT_FALSE(happened.written);
}

TEST_F(WatchTest, AWriteAndATouchAreReportedTogether) {
  FileWatch watch = FileWatch::open(file()).value();
  touch();
  write();
  FileWatch::Happened happened = watch.take();
  EXPECT_TRUE(happened.touched);
  EXPECT_TRUE(happened.written);
}

TEST_F(WatchTest, WatchingAMissingFileFails) {
  EXPECT_EQ(error_of(FileWatch::open(directory_.file("missing"))), Code::kNotFound);
}

}  // namespace
}  // namespace warren
