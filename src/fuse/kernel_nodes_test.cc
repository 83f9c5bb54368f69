#include "fuse/kernel_nodes.h"

#include <gtest/gtest.h>

#include "fs/memory/memory_fs.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

// A file without a name exists only while it is retained, so its existence shows whether it is.
class KernelNodesTest : public ::testing::Test {
 protected:
  Inode make_file() { return fs_.make_node(kRootInode, "file", {.mode = 0100644}).value().inode; }
  void drop_name() { ASSERT_OK(fs_.unlink(kRootInode, "file")); }
  bool lives(Inode node) { return fs_.get_attributes(node).ok(); }

  testing::FakeClock clock_;
  MemoryFs fs_{clock_};
};

TEST_F(KernelNodesTest, ANodeIsRetainedOnceHoweverOftenItIsAdded) {
  KernelNodes nodes(fs_);
  Inode file = make_file();
  for (int i = 0; i < 3; ++i) ASSERT_OK(nodes.add(file));
  drop_name();
  EXPECT_TRUE(lives(file));
  nodes.forget(file, 3);
  EXPECT_FALSE(lives(file));
}

TEST_F(KernelNodesTest, ANodeIsForgottenWhenEveryAddIsGivenBack) {
  KernelNodes nodes(fs_);
  Inode file = make_file();
  for (int i = 0; i < 3; ++i) ASSERT_OK(nodes.add(file));
  drop_name();
  nodes.forget(file, 2);
  EXPECT_TRUE(nodes.has(file));
  EXPECT_TRUE(lives(file));
  nodes.forget(file, 1);
  EXPECT_FALSE(nodes.has(file));
  EXPECT_FALSE(lives(file));
}

TEST_F(KernelNodesTest, GivingBackMoreThanWasAddedForgetsOnce) {
  KernelNodes nodes(fs_);
  Inode file = make_file();
  ASSERT_OK(fs_.retain(file));
  ASSERT_OK(nodes.add(file));
  drop_name();
  nodes.forget(file, 100);
  nodes.forget(file, 1);
  EXPECT_TRUE(lives(file)) << "somebody else retains it as well";
}

TEST_F(KernelNodesTest, TheEndForgetsWhatTheKernelStillHad) {
  Inode file = make_file();
  {
    KernelNodes nodes(fs_);
    ASSERT_OK(nodes.add(file));
    ASSERT_OK(nodes.add(file));
    drop_name();
    EXPECT_TRUE(lives(file));
  }
  EXPECT_FALSE(lives(file));
}

TEST_F(KernelNodesTest, ANodeThatIsGoneIsStaleAndNotOnTheList) {
  KernelNodes nodes(fs_);
  Inode file = make_file();
  drop_name();
  EXPECT_EQ(error_of(nodes.add(file)), Code::kStale);
  EXPECT_FALSE(nodes.has(file));
}

TEST_F(KernelNodesTest, TheRootIsAlwaysThere) {
  KernelNodes nodes(fs_);
  Inode file = make_file();
  ASSERT_OK(nodes.add(file));
  ASSERT_OK(nodes.add(kRootInode));
  nodes.forget(kRootInode, 1);
  EXPECT_TRUE(nodes.has(kRootInode));
  EXPECT_EQ(nodes.list(), (std::vector<Inode>{kRootInode, file}));
}

}  // namespace
}  // namespace warren
