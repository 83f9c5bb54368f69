#include "fs/tree_ops.h"

#include <gtest/gtest.h>

#include "fs/forwarding_fs.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "fs/stoppable_remove.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

// Lists everything, and says of what it does not remove that it is not there, or that it is not empty.
class StubbornFs final : public ForwardingFs {
 public:
  StubbornFs(FileSystem& inner, Code refusal) : ForwardingFs(inner), refusal_(refusal) {}

  Status unlink(Inode parent, std::string_view name) override {
    return refusal_ == Code::kNotFound ? Status(refuse()) : inner().unlink(parent, name);
  }
  Status remove_dir(Inode, std::string_view) override { return refuse(); }

 private:
  Error refuse() const { return Error(refusal_, "refused"); }

  Code refusal_;
};

TEST(TreeOpsTest, RemovingATreeEndsWhateverIsRefused) {
  testing::FakeClock clock;
  MemoryFs tree(clock);
  for (const char* path : {"/top/file", "/top/dir/file"}) ASSERT_OK(write_file(tree, path, {}));
  for (Code refusal : {Code::kNotFound, Code::kNotEmpty}) {
    StubbornFs stubborn(tree, refusal);
    EXPECT_EQ(error_of(remove(stubborn, "/top", {.recursive = Recursive::kYes})), refusal);
  }
  EXPECT_TRUE(stat(tree, "/top/dir").ok());
  ASSERT_OK(remove(tree, "/top", {.recursive = Recursive::kYes}));
}

TEST(TreeOpsTest, ARemovalThatIsStoppedSaysHowFarItCame) {
  testing::FakeClock clock;
  MemoryFs fs(clock);
  for (const char* path : {"/d/a", "/d/b", "/d/c"}) ASSERT_OK(write_file(fs, path, as_bytes("x")));
  int calls = 0;
  auto stop = [&]() -> Status {
    return ++calls <= 2 ? Status(Ok{}) : Status(Error(Code::kUnavailable, "the call was cancelled"));
  };
  Status removed = remove_stoppable(fs, "/d", {.recursive = Recursive::kYes}, stop);
  EXPECT_EQ(error_of(removed), Code::kUnavailable);
  EXPECT_EQ(removed.error().message(),
            "the call was cancelled; '/d' is still there, and 2 files and directories in it were removed");
  EXPECT_EQ(read_dir(fs, "/d")->size(), 1U);
  ASSERT_OK(remove_stoppable(fs, "/d", {.recursive = Recursive::kYes}, {}));
  EXPECT_FALSE(exists(fs, "/d").value());
}

}  // namespace
}  // namespace warren
