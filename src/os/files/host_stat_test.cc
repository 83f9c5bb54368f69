#include "os/files/host_stat.h"

#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/fd.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

TEST(HostStat, TellsWhatStatTellsByNameAndByDescriptor) {
  testing::TempDir dir;
  std::ofstream(dir.file("f")) << "text";
  ASSERT_EQ(::symlink("nowhere", dir.file("link").c_str()), 0);
  Fd top(::open(dir.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const char* name : {"f", "link"}) {
    struct stat plain {};
    ASSERT_EQ(::lstat(dir.file(name).c_str(), &plain), 0);
    HostStat info = host_stat(top.get(), name).value();
    EXPECT_EQ(info.st_dev, plain.st_dev);
    EXPECT_EQ(info.st_ino, plain.st_ino);
    EXPECT_EQ(info.st_mode, plain.st_mode);
    EXPECT_EQ(info.st_nlink, plain.st_nlink);
    EXPECT_EQ(info.st_uid, plain.st_uid);
    EXPECT_EQ(info.st_size, plain.st_size);
    EXPECT_EQ(info.st_mtim.tv_sec, plain.st_mtim.tv_sec);
    EXPECT_EQ(info.st_mtim.tv_nsec, plain.st_mtim.tv_nsec);
    EXPECT_EQ(info.st_ctim.tv_nsec, plain.st_ctim.tv_nsec);
    Fd node(::openat(top.get(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    EXPECT_EQ(host_stat(node.get(), "")->generation, info.generation);
    EXPECT_EQ(generation_by_handle(node.get(), ""), generation_by_handle(top.get(), name));
  }
  EXPECT_EQ(error_of(host_stat(top.get(), "none")), Code::kNotFound);
}

TEST(HostStat, GenerationsAreComparedWithinOneKind) {
  EXPECT_TRUE(is_other_generation(2, 4));
  EXPECT_TRUE(is_other_generation(3, 5));
  EXPECT_FALSE(is_other_generation(4, 4));
  EXPECT_FALSE(is_other_generation(2, 5));  // a birth and a handle
  EXPECT_FALSE(is_other_generation(0, 4));
  EXPECT_FALSE(is_other_generation(5, 0));
}

}  // namespace
}  // namespace warren
