#include "store/files/namespace_tree.h"

#include <chrono>
#include <mutex>
#include <thread>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "db/database.h"
#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "store/record/journal.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

class NamespaceTreeTest : public ::testing::Test {
 protected:
  void SetUp() override { open(OpenMode::kCreate); }

  void open(OpenMode mode, Commits commits = Commits::kEach) {
    auto store = Store::open(file_, {.mode = mode, .durability = Durability::kProcess, .commits = commits}, clock_);
    ASSERT_OK(store);
    store_ = std::move(store).value();
  }
  void reopen(OpenMode mode = OpenMode::kReadWrite, Commits commits = Commits::kEach) {
    tree_.reset();
    store_.reset();
    open(mode, commits);
  }
  NamespaceTree& tree() {
    if (!tree_) {
      auto made = NamespaceTree::open_in(*store_);
      EXPECT_OK(made);
      tree_ = std::move(made).value();
    }
    return *tree_;
  }
  void write(FileSystem& fs, std::string_view path, std::string_view text) {
    ASSERT_OK(write_file(fs, path, as_bytes(text)));
  }
  void plant(Sql sql) {
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute(sql));
  }
  void expect_clean() {
    auto report = check_agent(file_, clock_);
    ASSERT_OK(report);
    for (const Violation& left : report->violations) ADD_FAILURE() << left.rule << ": " << left.message;
  }

  TempDir dir_;
  std::string file_ = dir_.file("a.db");
  FakeClock clock_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<NamespaceTree> tree_;
};

TEST_F(NamespaceTreeTest, WR35_TheTwoTreesDoNotSeeEachOther) {
  write(store_->fs(), "/file", "of the project");
  write(tree(), "/mem/note", "of the namespace");
  EXPECT_EQ(*read_dir(store_->fs(), "/"), std::vector<std::string>{"file"});
  EXPECT_EQ(*read_dir(tree(), "/"), std::vector<std::string>{"mem"});
  expect_clean();
  reopen();
  EXPECT_EQ(*read_file(tree(), "/mem/note"), "of the namespace");
  reopen(OpenMode::kReadOnly);
  EXPECT_EQ(*read_file(tree(), "/mem/note"), "of the namespace");
}

TEST_F(NamespaceTreeTest, AReadOnlyAgentWithoutOneHasNone) {
  reopen(OpenMode::kReadOnly);
  EXPECT_EQ(error_of(NamespaceTree::open_in(*store_)), Code::kNotFound);
}

TEST_F(NamespaceTreeTest, TwoProcessesMakeOne) {
  auto other = Store::open(file_, {.durability = Durability::kProcess}, clock_).value();
  std::unique_ptr<NamespaceTree> second;
  std::thread racing([&] { second = NamespaceTree::open_in(*other).value(); });
  write(tree(), "/a", "1");
  racing.join();
  write(*second, "/b", "2");
  EXPECT_EQ(*read_dir(tree(), "/"), (std::vector<std::string>{"a", "b"}));
  expect_clean();
}

TEST_F(NamespaceTreeTest, ItIsNotMadeInsideAUnit) {
  auto unit = store_->fs().begin(UnitAccess::kWrite);
  ASSERT_OK(unit);
  EXPECT_EQ(error_of(NamespaceTree::open_in(*store_)), Code::kBusy);
}

TEST_F(NamespaceTreeTest, MovingADirectoryIntoItselfIsRefused) {
  ASSERT_OK(make_dirs(tree(), "/a/b/c"));
  EXPECT_EQ(error_of(rename(tree(), "/a", "/a/b/c/d")), Code::kInvalid);
  ASSERT_OK(rename(tree(), "/a/b", "/b"));
  EXPECT_EQ(*read_dir(tree(), "/"), (std::vector<std::string>{"a", "b"}));
}

TEST_F(NamespaceTreeTest, WR35_ANameThatIsNotOfARootIsNotBelieved) {
  write(store_->fs(), "/dir/file", "x");
  ASSERT_OK(make_dir(store_->fs(), "/empty"));
  std::uint64_t file = stat(store_->fs(), "/dir/file")->inode.value;
  std::uint64_t dir = stat(store_->fs(), "/dir")->inode.value;
  for (std::uint64_t named : {std::uint64_t{1}, file, dir, std::uint64_t{0}, std::uint64_t{999}}) {
    {
      auto database = Database::open(file_, {.durability = Durability::kProcess}).value();
      Statement put = database->prepare("INSERT OR REPLACE INTO wr_meta VALUES ('namespace_ino', ?)").value();
      ASSERT_OK(put.bind(1, named).run());
    }
    EXPECT_EQ(error_of(NamespaceTree::open_in(*store_)), Code::kCorrupt) << named;
  }
  plant("UPDATE wr_meta SET value = 'x' WHERE key = 'namespace_ino'");
  EXPECT_EQ(error_of(NamespaceTree::open_in(*store_)), Code::kCorrupt);
}

// A killed process leaves nodes without a name; the root is not one of them.
TEST_F(NamespaceTreeTest, TheRootIsNotCollected) {
  write(tree(), "/note", "kept");
  plant(
      "INSERT INTO fs_inode (mode, nlink, atime, mtime, ctime) VALUES (33188, 0, 1, 1, 1);"
      "INSERT INTO wr_orphan VALUES (last_insert_rowid(), 'another boot', 1, 1, 1);");
  for (Commits commits : {Commits::kEach, Commits::kGrouped}) {
    reopen(OpenMode::kReadWrite, commits);
    EXPECT_EQ(*read_file(tree(), "/note"), "kept");
    ASSERT_OK(store_->fs().leave());
  }
  expect_clean();
}

TEST_F(NamespaceTreeTest, OneQuotaIsForBothTrees) {
  write(tree(), "/note", "12345");
  write(store_->fs(), "/file", "12345");
  ASSERT_OK(store_->usage().set_quota({.bytes = 16, .inodes = {}}));
  EXPECT_EQ(error_of(write_file(tree(), "/more", as_bytes(std::string_view("1234567")))), Code::kNoSpace);
  EXPECT_EQ(store_->usage().measure()->bytes, 10U);
  EXPECT_EQ(store_->usage().used()->inodes, 4U);  // two roots, two files
}

class TreeEar final : public ChangeListener {
 public:
  void entry_changed(Inode parent, std::string_view name) override {
    std::lock_guard guard(mutex);
    entries.emplace_back(parent, name);
  }
  void node_changed(Inode) override {}
  void everything_changed() override {}
  bool has(Inode parent, std::string_view name) {
    std::lock_guard guard(mutex);
    for (const auto& [where, what] : entries) {
      if (where == parent && what == name) return true;
    }
    return false;
  }
  bool hears(Inode parent, std::string_view name) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!has(parent, name) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return has(parent, name);
  }
  std::mutex mutex;
  std::vector<std::pair<Inode, std::string>> entries;
};

// As in a run: both trees are mounted by one process.
TEST_F(NamespaceTreeTest, EachTreeHasAListener) {
  tree();
  reopen(OpenMode::kReadWrite, Commits::kGrouped);
  TreeEar files;
  TreeEar names;
  ASSERT_OK(store_->fs().listen(&files));
  ASSERT_OK(tree().listen(&names));
  auto other = Store::open(file_, {.durability = Durability::kProcess}, clock_).value();
  auto other_names = NamespaceTree::open_in(*other).value();
  write(other->fs(), "/file", "1");
  write(*other_names, "/note", "2");
  EXPECT_TRUE(files.hears(kRootInode, "file"));
  EXPECT_TRUE(names.hears(kRootInode, "note"));
  EXPECT_FALSE(names.has(kRootInode, "file"));
  EXPECT_FALSE(files.has(kRootInode, "note"));
  ASSERT_OK(tree().listen(nullptr));
  write(other->fs(), "/second", "3");
  EXPECT_TRUE(files.hears(kRootInode, "second"));
  ASSERT_OK(store_->fs().listen(nullptr));
}

// An overlay's upper layer is the first tree.
TEST_F(NamespaceTreeTest, AnOverlayOfTheFilesShowsNothingOfIt) {
  ASSERT_EQ(::mkdir(dir_.file("base").c_str(), 0755), 0);
  ASSERT_OK(make_overlay(*store_, dir_.file("base")));
  write(tree(), "/mem/note", "kept");
  auto rows = OverlayRows::open(*store_).value();
  auto base = HostFs::open(dir_.file("base")).value();
  auto overlay = OverlayFs::open(*rows, *base).value();
  write(*overlay, "/made", "x");
  EXPECT_EQ(*read_dir(*overlay, "/"), std::vector<std::string>{"made"});
  ASSERT_OK(remove(*overlay, "/made"));
  EXPECT_EQ(*read_file(tree(), "/mem/note"), "kept");
  expect_clean();
}

}  // namespace
}  // namespace warren::testing
