#include "os/files/rewrite_file.h"

#include <optional>

#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

struct stat look_at(const std::string& path) {
  return find_host_file(path).value().value();
}

TEST(RewriteFile, KeepsOwnerAndMode) {
  TempDir dir;
  std::string path = dir.file("file");
  ASSERT_OK(replace_host_file(path, "old", 0600));
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 4711, 4712), 0);
  }
  struct stat before = look_at(path);
  ASSERT_OK(rewrite_host_file(path, "new", before));
  struct stat after = look_at(path);
  EXPECT_EQ(after.st_uid, before.st_uid);
  EXPECT_EQ(after.st_gid, before.st_gid);
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_EQ(read_host_file(path, 100).value(), "new");
}

TEST(RewriteFile, AnOwnerThatCannotBeKeptIsAnErrorAndNothingIsChanged) {
  if (::geteuid() == 0) GTEST_SKIP() << "root can give files away";
  TempDir dir;
  std::string path = dir.file("file");
  ASSERT_OK(replace_host_file(path, "old", 0600));
  struct stat as = look_at(path);
  as.st_uid = 0;
  EXPECT_EQ(error_of(rewrite_host_file(path, "new", as)), Code::kNotPermitted);
  EXPECT_EQ(read_host_file(path, 100).value(), "old");
}

}  // namespace
}  // namespace warren::testing
