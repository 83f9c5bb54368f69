#include "drives/source_watch.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "os/host_files.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

TEST(SourceWatch, WhatIsForgottenIsNotReported) {
  testing::TempDir dir;
  SourceWatch watch = SourceWatch::open().value();
  for (const char* name : {"a", "a/b", "ab"}) {
    ASSERT_EQ(::mkdir(dir.file(name).c_str(), 0700), 0);
    Fd opened = open_host_dir(dir.file(name)).value();
    ASSERT_OK(watch.add(opened.get(), dir.file(name)));
  }
  auto write_all_three = [&] {
    for (const char* name : {"a/x", "a/b/x", "ab/x"}) ASSERT_OK(replace_host_file(dir.file(name), "x", 0600));
  };
  write_all_three();
  EXPECT_FALSE(watch.take().paths.empty());
  watch.forget(dir.file("a"));
  EXPECT_EQ(watch.size(), 1U);
  write_all_three();
  std::set<std::string> paths = watch.take().paths;
  EXPECT_TRUE(paths.contains(dir.file("ab/x")));
  EXPECT_FALSE(paths.contains(dir.file("a/x")));
  EXPECT_FALSE(paths.contains(dir.file("a/b/x")));
}

}  // namespace
}  // namespace warren
