#include "db/log_owner.h"

#include <functional>
#include <utility>

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "db/database.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace {

std::function<void()> after_getxattr;  // called once

}  // namespace

// In place of the C library's, for this program.
extern "C" ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  auto length = static_cast<ssize_t>(::syscall(SYS_getxattr, path, name, value, size));
  if (after_getxattr) std::exchange(after_getxattr, nullptr)();
  return length;
}

namespace warren::testing {
namespace {

TEST(LogOwner, AFileThatIsOpenedMeanwhileIsNotTakenForAnother) {
  TempDir dir;
  std::string path = dir.file("a.db");
  {
    auto first = Database::open(path, {.mode = OpenMode::kCreate});
    ASSERT_OK(first);
    ASSERT_OK((*first)->execute("CREATE TABLE t (x)"));
  }
  std::unique_ptr<Database> other;
  bool has_run = false;
  after_getxattr = [&] {  // the file's mark is read, the log's not yet
    has_run = true;
    auto opened = Database::open(path, {});
    ASSERT_OK(opened);
    ASSERT_OK((*opened)->execute("INSERT INTO t VALUES (1)"));
    other = std::move(opened).value();
  };
  auto database = Database::open(path, {});
  after_getxattr = nullptr;
  EXPECT_TRUE(has_run);
  EXPECT_OK(database);
}

}  // namespace
}  // namespace warren::testing
