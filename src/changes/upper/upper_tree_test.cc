// The changes of an agent whose renames the base has made, too.
#include "changes/upper/upper_tree.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "changes/changes.h"
#include "changes/conflicts.h"
#include "changes/upper/upper_edit.h"
#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using Lines = std::vector<std::string>;

class RenamedInBothTest : public ::testing::Test {
 protected:
  RenamedInBothTest() {
    put("/a.txt", "a\n");
    put("/src/c.txt", "c\n");
    put("/src/d.txt", "d\n");
    store_ =
        Store::open(dir_.file("a.db"), {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_).value();
    EXPECT_OK(make_overlay(*store_, base_));
    reopen();
    agent_sees_all();
    clock_.advance_ns(1'000'000'000);
  }

  void reopen() {
    overlay_.reset();
    host_.reset();
    if (!rows_) rows_ = OverlayRows::open(*store_).value();
    host_ = HostFs::open(base_).value();
    overlay_ = OverlayFs::open(*rows_, *host_).value();
  }
  FileSystem& fs() { return *overlay_; }
  AgentOverlay agent() { return {*rows_, *host_, *overlay_, base_, base_, note_, hidden_}; }

  std::string host(std::string_view path) { return base_ + std::string(path); }
  void put(std::string_view path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(host(path)).parent_path());
    std::ofstream(host(path), std::ios::binary) << text;
  }
  // As git does it: other files and directories with the same content.
  void remake(std::string_view from, std::string_view to) {
    std::filesystem::copy(host(from), host("/.copy"), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(host(from));
    std::filesystem::rename(host("/.copy"), host(to));
    reopen();
  }
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs(), path, as_bytes(text))); }

  // From here on the agent's changes are of the time of what is in the base now...
  void agent_sees_all() {
    put("/.probe", "");
    clock_.jump_to(lstat(*host_, "/.probe")->ctime);
    std::filesystem::remove(host("/.probe"));
  }
  // ...and from here on the host's are later.
  void let_host_time_pass() {
    Timestamp now = clock_.now();
    do {
      put("/.probe", "");
      now = lstat(*host_, "/.probe")->ctime;
      std::filesystem::remove(host("/.probe"));
    } while (now <= clock_.now());
  }

  // "M /path", with "!" if it is a conflict.
  Lines changes() {
    AgentOverlay all = agent();
    std::vector<TreeChange> listed = list_changes(all).value();
    Lines lines;
    for (const TreeChange& change : listed) {
      bool is_conflict = !find_conflicts(all, {change})->empty();
      std::string from = change.kind == TreeChangeKind::kRenamed ? change.base_path + " -> " : "";
      lines.push_back(change.letter() + (" " + from) + change.path + (is_conflict ? " !" : ""));
    }
    return lines;
  }
  void settle() {
    AgentOverlay all = agent();
    auto unit = all.upper.begin(UnitAccess::kWrite).value();
    TreeFinder base(all.base);
    UpperTree tree = UpperTree::read(all, base).value();
    UpperEdit edit(all, tree, base);
    ASSERT_OK(edit.settle_moves(InUse::kNo));
    ASSERT_OK(edit.tidy(InUse::kNo));
    ASSERT_OK(unit->commit());
    base.clear();
    reopen();
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string base_ = dir_.file("base");
  std::optional<BaseNote> note_;
  std::vector<std::string> hidden_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<OverlayRows> rows_;
  std::unique_ptr<HostFs> host_;
  std::unique_ptr<OverlayFs> overlay_;
};

TEST_F(RenamedInBothTest, ARenameThatTheBaseHasMadeTooIsNoChange) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  ASSERT_OK(rename(fs(), "/a.txt", "/moved.txt"));
  EXPECT_EQ(changes(), (Lines{"R /src -> /lib", "R /a.txt -> /moved.txt"}));
  remake("/src", "/lib");
  EXPECT_EQ(changes(), Lines{"R /a.txt -> /moved.txt"});
  remake("/a.txt", "/moved.txt");
  EXPECT_EQ(changes(), Lines{});
}

TEST_F(RenamedInBothTest, WhatTheAgentChangedInItIsAChangeAtTheNewPath) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  ASSERT_OK(rename(fs(), "/a.txt", "/moved.txt"));
  write("/lib/c.txt", "changed\n");
  write("/lib/n.txt", "new\n");
  write("/moved.txt", "changed\n");
  remake("/src", "/lib");
  remake("/a.txt", "/moved.txt");
  EXPECT_EQ(changes(), (Lines{"M /lib/c.txt", "A /lib/n.txt", "M /moved.txt"}));
}

TEST_F(RenamedInBothTest, WhatTheBaseHasChangedInItIsAConflictAndCanBeMerged) {
  put("/long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  ASSERT_OK(rename(fs(), "/long.txt", "/moved.txt"));
  write("/moved.txt", "agent\n2\n3\n4\n5\n6\n7\n8\n9\n");
  remake("/long.txt", "/moved.txt");
  put("/moved.txt", "1\n2\n3\n4\n5\n6\n7\n8\nuser\n");
  EXPECT_EQ(changes(), Lines{"M /moved.txt !"});
  AgentOverlay all = agent();
  std::vector<TreeChange> listed = list_changes(all).value();
  EXPECT_EQ(merge_change(all, listed[0]).value(), "agent\n2\n3\n4\n5\n6\n7\n8\nuser\n");
}

TEST_F(RenamedInBothTest, ADirectoryThatTheBaseHasDeletedIsAConflictAndDeletesNothing) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  write("/lib/c.txt", "changed\n");
  std::filesystem::remove_all(host("/src"));
  reopen();
  EXPECT_EQ(changes(), (Lines{"A /lib !", "A /lib/c.txt !"}));
}

TEST_F(RenamedInBothTest, ARenameThatTheBaseTakesBackIsAChangeAgain) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  write("/lib/n.txt", "new\n");
  std::filesystem::rename(host("/src"), host("/lib"));
  reopen();
  EXPECT_EQ(changes(), Lines{"A /lib/n.txt"});
  std::filesystem::rename(host("/lib"), host("/src"));
  reopen();
  EXPECT_EQ(changes(), (Lines{"R /src -> /lib", "A /lib/n.txt"}));
}

TEST_F(RenamedInBothTest, OnceSettledItDoesNotDependOnTheOldNames) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  ASSERT_OK(rename(fs(), "/a.txt", "/moved.txt"));
  write("/lib/c.txt", "changed\n");
  remake("/src", "/lib");
  remake("/a.txt", "/moved.txt");
  settle();
  put("/src/other.txt", "of the user\n");
  put("/a.txt", "of the user\n");
  reopen();
  EXPECT_EQ(changes(), Lines{"M /lib/c.txt"});
  EXPECT_EQ(read_dir(fs(), "/").value(), (Lines{"a.txt", "lib", "moved.txt", "src"}));
  EXPECT_EQ(read_dir(fs(), "/lib").value(), (Lines{"c.txt", "d.txt"}));
  ASSERT_OK(rename(fs(), "/lib", "/third"));
  EXPECT_EQ(changes(), (Lines{"R /lib -> /third", "M /third/c.txt"}));
}

TEST_F(RenamedInBothTest, WhatTheUserMadeUnderTheOldNameIsNotDeleted) {
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  std::filesystem::rename(host("/src"), host("/lib"));
  put("/src/other.txt", "of the user\n");
  reopen();
  EXPECT_EQ(changes(), Lines{});
  settle();
  EXPECT_EQ(changes(), Lines{});
  EXPECT_EQ(read_dir(fs(), "/src").value(), Lines{"other.txt"});
}

TEST_F(RenamedInBothTest, ALargeFileThatWasOnlyRenamedIsTheBasesOnceSettled) {
  std::string large(3'000'000, 'x');
  put("/large", large);
  put("/large2", large);
  reopen();
  ASSERT_OK(rename(fs(), "/large", "/moved"));
  ASSERT_OK(rename(fs(), "/large2", "/moved2"));
  ASSERT_OK(set_xattr(fs(), "/moved2", "user.x", as_bytes("of the agent")));
  remake("/large", "/moved");
  remake("/large2", "/moved2");
  EXPECT_EQ(changes(), Lines{"M /moved2 !"});
  settle();
  EXPECT_EQ(read_file(fs(), "/moved").value(), large);
  EXPECT_EQ(changes(), Lines{"M /moved2 !"});
}

TEST_F(RenamedInBothTest, ADirectoryThatTheUserHasMovedToTheNewNameIsAConflictThoughItsFilesAreOld) {
  put("/core/old.txt", "of the user\n");
  put("/tree/x", "x\n");
  put("/tree2/deep/old.txt", "of the user\n");
  agent_sees_all();
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  ASSERT_OK(remove(fs(), "/tree", {.recursive = Recursive::kYes}));
  let_host_time_pass();
  std::filesystem::rename(host("/core"), host("/lib"));
  std::filesystem::rename(host("/tree2/deep"), host("/tree/deep"));
  reopen();
  EXPECT_EQ(changes(), (Lines{"D /lib !", "R /src -> /lib", "D /lib/old.txt !", "D /tree", "D /tree/deep",
                              "D /tree/deep/old.txt !", "D /tree/x"}));
}

TEST_F(RenamedInBothTest, AnotherDirectoryOfTheNewNameIsAConflict) {
  agent_sees_all();
  let_host_time_pass();
  ASSERT_OK(rename(fs(), "/src", "/lib"));
  put("/lib/other.txt", "of the user\n");
  reopen();
  Lines listed = changes();
  EXPECT_NE(std::find(listed.begin(), listed.end(), "D /lib/other.txt !"), listed.end());
}

}  // namespace
}  // namespace warren
