#include "drives/source_watch.h"

#include <sys/stat.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

TEST(SourceWatch, AFolderThatWasReplacedIsForgottenAndItsNeighboursAreNot) {
  testing::TempDir dir;
  SourceWatch watch = SourceWatch::open().value();
  auto add = [&](const char* name) {
    Fd opened = open_host_dir(dir.file(name)).value();
    ASSERT_OK(watch.add(opened.get(), dir.file(name)));
  };
  for (const char* name : {"a", "a/b", "a/b/c", "a/d", "ab"}) {
    ASSERT_EQ(::mkdir(dir.file(name).c_str(), 0700), 0);
    add(name);
  }
  auto write_all = [&](const char* b) {
    for (std::string name : {std::string("a/x"), fmt::format("{}/x", b), fmt::format("{}/c/x", b), std::string("a/d/x"),
                             std::string("ab/x")}) {
      ASSERT_OK(replace_host_file(dir.file(name), "x", 0600));
    }
  };
  write_all("a/b");
  EXPECT_FALSE(watch.take().paths.empty());
  watch.forget_replaced(dir.file("a"));
  EXPECT_EQ(watch.size(), 5U);
  ASSERT_EQ(::rename(dir.file("a/b").c_str(), dir.file("moved").c_str()), 0);
  ASSERT_EQ(::mkdir(dir.file("a/b").c_str(), 0700), 0);
  add("a/b");
  EXPECT_FALSE(watch.take().paths.empty());
  watch.forget_replaced(dir.file("a"));
  EXPECT_EQ(watch.size(), 4U);
  watch.take();
  write_all("moved");
  std::set<std::string> paths = watch.take().paths;
  EXPECT_TRUE(paths.contains(dir.file("a/x")));
  EXPECT_TRUE(paths.contains(dir.file("a/d/x")));
  EXPECT_TRUE(paths.contains(dir.file("ab/x")));
  EXPECT_FALSE(paths.contains(dir.file("a/b/x")));
  EXPECT_FALSE(paths.contains(dir.file("a/b/c/x")));
}

}  // namespace
}  // namespace warren
