// An agent file on top of a directory of the host, in which the user makes the renames of the agent, too.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "store/fsck/fsck.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using Names = std::vector<std::string>;
using testing::error_of;

class AllHeard final : public ChangeListener {
 public:
  void entry_changed(Inode, std::string_view) override {}
  void node_changed(Inode) override {}
  void everything_changed() override { has_heard = true; }
  std::atomic<bool> has_heard = false;
};

class FollowedRenamesTest : public ::testing::Test {
 protected:
  struct Process {
    std::unique_ptr<Store> store;
    std::unique_ptr<OverlayRows> rows;
    std::unique_ptr<HostFs> base;
    std::unique_ptr<OverlayFs> overlay;
  };

  FollowedRenamesTest() {
    put("/src/c.txt", "c");
    put("/src/d.txt", "d");
    put("/src/sub/e.txt", "e");
    session_ = open(OpenMode::kCreate);
  }

  std::unique_ptr<Process> open(OpenMode mode) {
    auto process = std::make_unique<Process>();
    StoreOptions options{.mode = mode, .durability = Durability::kProcess, .commits = Commits::kGrouped};
    process->store = Store::open(file_, options, clock_).value();
    if (mode == OpenMode::kCreate) {
      EXPECT_OK(make_overlay(*process->store, base_));
    }
    process->rows = OverlayRows::open(*process->store).value();
    process->base = HostFs::open(base_).value();
    process->overlay = OverlayFs::open(*process->rows, *process->base).value();
    return process;
  }
  void reopen() {
    session_.reset();
    session_ = open(OpenMode::kReadWrite);
  }
  FileSystem& fs() { return *session_->overlay; }

  std::string host(std::string_view path) { return base_ + std::string(path); }
  void put(std::string_view path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(host(path)).parent_path());
    std::ofstream(host(path), std::ios::binary) << text;
  }
  void host_rename(std::string_view from, std::string_view to) { std::filesystem::rename(host(from), host(to)); }
  // As git does it: other files and directories with the same content.
  void host_remake(std::string_view from, std::string_view to) {
    std::filesystem::copy(host(from), host("/.copy"), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(host(from));
    host_rename("/.copy", to);
  }
  Names names(std::string_view path) { return read_dir(fs(), path).value(); }
  std::string read(std::string_view path) { return read_file(fs(), path).value(); }
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs(), path, as_bytes(text))); }
  void expect_sound() {
    session_.reset();
    auto report = check_agent(file_, clock_);
    ASSERT_OK(report);
    EXPECT_TRUE(report->violations.empty()) << report->violations.front().message;
    session_ = open(OpenMode::kReadWrite);
  }
  template <class Condition>
  bool comes_true(Condition condition) {
    for (int i = 0; i < 3000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string file_ = dir_.file("a.db");
  std::string base_ = dir_.file("base");
  std::unique_ptr<Process> session_;
  const Names all_{"c.txt", "d.txt", "sub"};
};

TEST_F(FollowedRenamesTest, ADirectoryShowsItsChildrenAfterTheBaseHasRenamedItToo) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  write("/lib/c.txt", "changed");
  ASSERT_OK(unlink(fs(), "/lib/d.txt"));
  host_remake("/src", "/lib");
  reopen();
  EXPECT_EQ(names("/"), Names{"lib"});
  EXPECT_EQ(names("/lib"), (Names{"c.txt", "sub"}));
  EXPECT_EQ(read("/lib/c.txt"), "changed");
  EXPECT_EQ(read("/lib/sub/e.txt"), "e");
  write("/lib/sub/e.txt", "changed, too");
  EXPECT_EQ(read("/lib/sub/e.txt"), "changed, too");
  expect_sound();
}

TEST_F(FollowedRenamesTest, ARenameThatTheBaseTakesBackIsTheAgentsAgain) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  host_remake("/src", "/lib");
  reopen();
  write("/lib/c.txt", "changed");
  host_remake("/lib", "/src");
  reopen();
  EXPECT_EQ(names("/"), Names{"lib"});
  EXPECT_EQ(names("/lib"), all_);
  EXPECT_EQ(read("/lib/c.txt"), "changed");
  EXPECT_EQ(read("/lib/d.txt"), "d");
  expect_sound();
}

TEST_F(FollowedRenamesTest, WhatWasMovedOutOfTheDirectoryFollowsIt) {
  ASSERT_OK(make_dir(fs(), "/a"));
  ASSERT_OK(rename(fs(), "/src/sub", "/a/sub"));
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  host_remake("/src", "/lib");
  reopen();
  EXPECT_EQ(names("/lib"), (Names{"c.txt", "d.txt"}));
  EXPECT_EQ(names("/a/sub"), Names{"e.txt"});
}

TEST_F(FollowedRenamesTest, AFollowedDirectoryCanBeRenamedAgain) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  host_remake("/src", "/lib");
  reopen();
  ASSERT_OK(rename(fs(), "/lib", "/third"));
  EXPECT_EQ(names("/third"), all_);
  reopen();
  EXPECT_EQ(names("/"), Names{"third"});
  EXPECT_EQ(names("/third"), all_);
  expect_sound();
}

TEST_F(FollowedRenamesTest, ADirectoryWhoseOriginIsStillThereKeepsIt) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  put("/lib/other.txt", "of the user");
  reopen();
  EXPECT_EQ(names("/lib"), all_);
}

TEST_F(FollowedRenamesTest, AReaderFollowsToo) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  session_.reset();
  host_remake("/src", "/lib");
  session_ = open(OpenMode::kReadOnly);
  EXPECT_EQ(names("/lib"), all_);
}

TEST_F(FollowedRenamesTest, ADirectoryInUseFollowsWhenTheHostReportsTheRename) {
  AllHeard heard;
  ASSERT_OK(fs().listen(&heard));
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  EXPECT_EQ(names("/lib"), all_);
  Inode lib = lstat(fs(), "/lib")->inode;
  ASSERT_OK(fs().retain(lib));
  host_remake("/src", "/lib");
  EXPECT_TRUE(comes_true([&] { return names("/lib") == all_ && heard.has_heard; }));
  EXPECT_EQ(lstat(fs(), "/lib")->inode, lib);
  EXPECT_OK(fs().lookup(lib, "c.txt"));  // by the number that its user knows
  put("/lib/new.txt", "n");
  EXPECT_TRUE(comes_true([&] { return fs().lookup(lib, "new.txt").ok(); }));
  fs().forget(lib, 1);
  ASSERT_OK(fs().listen(nullptr));
}

TEST_F(FollowedRenamesTest, AnotherDirectoryUnderTheOldNameShowsAsOne) {
  AllHeard heard;
  ASSERT_OK(fs().listen(&heard));
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  host_rename("/src", "/lib");
  ASSERT_TRUE(comes_true([&] { return heard.has_heard.load(); }));
  put("/src/new.txt", "n");
  EXPECT_TRUE(comes_true([&] { return names("/") == (Names{"lib", "src"}); }));
  EXPECT_EQ(names("/lib"), all_);
  EXPECT_TRUE(comes_true([&] { return names("/src") == Names{"new.txt"}; }));
  ASSERT_OK(fs().listen(nullptr));
  reopen();
  EXPECT_EQ(names("/lib"), all_);
  EXPECT_EQ(names("/src"), Names{"new.txt"});
  expect_sound();
}

// As an apply does it, which makes the rename and then writes the new directory and the rows.
TEST_F(FollowedRenamesTest, ADirectoryThatAnApplyHasMadeUnderTheOldNameShowsAsOne) {
  AllHeard heard;
  ASSERT_OK(fs().listen(&heard));
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  ASSERT_OK(make_dir(fs(), "/src"));
  host_rename("/src", "/lib");
  ASSERT_TRUE(comes_true([&] { return heard.has_heard.load(); }));
  auto applier = open(OpenMode::kReadWrite);
  {
    auto unit = applier->rows->begin(UnitAccess::kWrite).value();
    std::filesystem::create_directory(host("/src"));
    for (const char* path : {"/src", "/lib"}) {
      Inode upper = lstat(applier->rows->fs(), path)->inode;
      Attributes in_base = lstat(*applier->base, path).value();
      ASSERT_OK(applier->rows->put_origin({.upper = upper, .base_path = path, .seen = in_base}));
    }
    ASSERT_OK(unit->commit());
  }
  put("/src/new.txt", "n");
  EXPECT_TRUE(comes_true([&] { return names("/src") == Names{"new.txt"}; }));
  std::filesystem::permissions(host("/src"), std::filesystem::perms::owner_all);
  put("/src/newer.txt", "n");
  EXPECT_TRUE(comes_true([&] { return names("/src") == (Names{"new.txt", "newer.txt"}); }));
  EXPECT_EQ(names("/lib"), all_);
  ASSERT_OK(fs().listen(nullptr));
  reopen();
  EXPECT_EQ(names("/src"), (Names{"new.txt", "newer.txt"}));
  EXPECT_EQ(names("/lib"), all_);
}

TEST_F(FollowedRenamesTest, ARemovedFileThatWasRenamedInBothIsAConflictIfTheBaseHasChangedIt) {
  put("/a.txt", "a");
  Attributes seen = lstat(fs(), "/a.txt").value();
  ASSERT_OK(rename(fs(), "/a.txt", "/moved.txt"));
  host_rename("/a.txt", "/moved.txt");
  put("/moved.txt", "a and more");
  reopen();
  ASSERT_OK(unlink(fs(), "/moved.txt"));
  auto unit = session_->rows->begin(UnitAccess::kRead).value();
  std::optional<Attributes> recorded = session_->rows->find_removed("/moved.txt").value();
  ASSERT_TRUE(recorded);
  EXPECT_EQ(recorded->size, seen.size);
}

}  // namespace
}  // namespace warren
