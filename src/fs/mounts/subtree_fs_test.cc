#include "fs/mounts/subtree_fs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fs/forwarding_fs.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;

class SubtreeFsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(write_file(whole_, "/above", as_bytes(std::string_view("above"))));
    ASSERT_OK(write_file(whole_, "/sub/dir/file", as_bytes(std::string_view("below"))));
    root_ = stat(whole_, "/sub")->inode;
  }

  testing::FakeClock clock_;
  MemoryFs whole_{clock_};
  Inode root_;
};

TEST_F(SubtreeFsTest, ListsOnlyTheNamesBelow) {
  SubtreeFs tree(whole_, root_);
  ASSERT_OK(link(whole_, "/sub/dir/file", "/sub/second"));
  ASSERT_OK(link(whole_, "/sub/dir/file", "/third"));
  Inode file = stat(tree, "/dir/file")->inode, dir = stat(tree, "/dir")->inode;
  EXPECT_EQ(whole_.list_names_of(file)->size(), 3U);
  EXPECT_THAT(*tree.list_names_of(file),
              ::testing::UnorderedElementsAre(EntryName{dir, "file"}, EntryName{kRootInode, "second"}));
  EXPECT_THAT(*tree.list_names_of(dir), ElementsAre(EntryName{kRootInode, "dir"}));
  EXPECT_TRUE(tree.list_names_of(kRootInode)->empty());
}

// As in a file that a stranger made.
class CircleFs final : public ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;
  static constexpr std::uint64_t kNames = 5'000, kFirst = 1'000'000;

  Result<std::vector<EntryName>> list_names_of(Inode node) override {
    ++asked;
    std::vector<EntryName> names;
    if (node.value >= kFirst) return std::vector{EntryName{Inode{kFirst + (node.value + 1) % kNames}, "up"}};
    for (std::uint64_t i = 0; i < kNames; ++i) names.push_back({Inode{kFirst + i}, "name"});
    return names;
  }
  std::uint64_t asked = 0;
};

TEST_F(SubtreeFsTest, NamesInACircleOfDirectoriesAreNone) {
  CircleFs circle(whole_);
  SubtreeFs tree(circle, root_);
  EXPECT_TRUE(tree.list_names_of(Inode{77})->empty());
  EXPECT_LE(circle.asked, CircleFs::kNames + 1);
}

TEST_F(SubtreeFsTest, ShowsTheDirectoryAsTheRoot) {
  SubtreeFs tree(whole_, root_);
  EXPECT_EQ(*read_dir(tree, "/"), std::vector<std::string>{"dir"});
  EXPECT_EQ(*read_file(tree, "/dir/file"), "below");
  EXPECT_EQ(stat(tree, "/")->inode, kRootInode);
  AttributeChanges changes;
  changes.mode = 0700;
  EXPECT_EQ(tree.set_attributes(kRootInode, changes)->inode, kRootInode);
  EXPECT_EQ(stat(whole_, "/sub")->mode & 07777, 0700U);
}

TEST_F(SubtreeFsTest, NothingAboveCanBeReached) {
  SubtreeFs tree(whole_, root_);
  EXPECT_EQ(error_of(read_file(tree, "/above")), Code::kNotFound);
  EXPECT_EQ(error_of(read_file(tree, "/../above")), Code::kNotFound);
  ASSERT_OK(make_symlink(tree, "/above", "/link"));
  EXPECT_EQ(error_of(read_file(tree, "/link")), Code::kNotFound);
}

TEST_F(SubtreeFsTest, CountsTheCallsThatChangeSomething) {
  SubtreeFs tree(whole_, root_);
  EXPECT_EQ(*read_file(tree, "/dir/file"), "below");
  EXPECT_EQ(error_of(make_dir(tree, "/dir")), Code::kExists);
  EXPECT_EQ(tree.changes(), 0U);
  ASSERT_OK(make_dir(tree, "/new"));
  EXPECT_EQ(tree.changes(), 1U);
  ASSERT_OK(write_file(whole_, "/other", as_bytes(std::string_view("x"))));
  EXPECT_EQ(tree.changes(), 1U);
}

class HeardBelow final : public ChangeListener {
 public:
  void entry_changed(Inode parent, std::string_view name) override { entries.emplace_back(parent, name); }
  void node_changed(Inode node) override { nodes.push_back(node); }
  void everything_changed() override { ++all; }
  std::vector<std::pair<Inode, std::string>> entries;
  std::vector<Inode> nodes;
  int all = 0;
};

class NoisyWhole final : public ForwardingFs {
 public:
  explicit NoisyWhole(FileSystem& inner) : ForwardingFs(inner) {}
  Status listen(ChangeListener* now) override {
    listener = now;
    return Ok{};
  }
  ChangeListener* listener = nullptr;
};

TEST_F(SubtreeFsTest, ANoticeAboutTheRootAboveIsNotOneAboutOurs) {
  NoisyWhole noisy(whole_);
  SubtreeFs tree(noisy, root_);
  HeardBelow heard;
  ASSERT_OK(tree.listen(&heard));
  noisy.listener->entry_changed(kRootInode, "above");
  noisy.listener->node_changed(kRootInode);
  EXPECT_TRUE(heard.entries.empty());
  EXPECT_TRUE(heard.nodes.empty());
  noisy.listener->entry_changed(root_, "dir");
  noisy.listener->node_changed(root_);
  noisy.listener->node_changed(Inode{77});
  noisy.listener->everything_changed();
  EXPECT_THAT(heard.entries, ElementsAre(std::pair(kRootInode, std::string("dir"))));
  EXPECT_THAT(heard.nodes, ElementsAre(kRootInode, Inode{77}));
  EXPECT_EQ(heard.all, 1);
  ASSERT_OK(tree.listen(nullptr));
  EXPECT_EQ(noisy.listener, nullptr);
}

}  // namespace
}  // namespace warren
