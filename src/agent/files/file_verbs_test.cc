#include "agent/files/file_verbs.h"

#include <gtest/gtest.h>

#include "agent/files/tree_copy.h"
#include "backends/blob/memory_blobs.h"
#include "fs/expiry.h"
#include "fs/forwarding_fs.h"
#include "fs/memory/memory_fs.h"
#include "fs/mounts/mount_fs.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "vfs/blob_fs.h"

namespace warren {
namespace {

using testing::error_of;

class FileVerbsTest : public ::testing::Test {
 protected:
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs_, path, as_bytes(text))); }
  std::string read(std::string_view path) {
    Result<std::string> text = read_file(fs_, path);
    return text.ok() ? *text : std::string(name_of(text.error().code()));
  }
  std::vector<std::string> found(const FindOptions& options, std::string_view path = "/") {
    std::vector<std::string> paths;
    EXPECT_OK(find(fs_, path, options, [&](const WalkEntry& entry) -> Status {
      paths.push_back(entry.path);
      return Ok{};
    }));
    return paths;
  }
  using Paths = std::vector<std::string>;

  testing::FakeClock clock_;
  MemoryFs fs_{clock_};
};

TEST_F(FileVerbsTest, AFileIsReplacedOnlyIfItIsStillWhatItWas) {
  write("/a", "old");
  ASSERT_OK(set_mode(fs_, "/a", 0750));
  ASSERT_OK(replace_if_unchanged(fs_, "/a", "old", as_bytes("new")));
  EXPECT_EQ(read("/a"), "new");
  EXPECT_EQ(stat(fs_, "/a")->mode & 07777U, 0750U);
  EXPECT_EQ(error_of(replace_if_unchanged(fs_, "/a", "old", as_bytes("other"))), Code::kConflict);
  EXPECT_EQ(error_of(replace_if_unchanged(fs_, "/a", "ne", as_bytes("other"))), Code::kConflict);
  EXPECT_EQ(error_of(replace_if_unchanged(fs_, "/a", std::nullopt, as_bytes("other"))), Code::kConflict);
  EXPECT_EQ(error_of(replace_if_unchanged(fs_, "/gone", "old", as_bytes("other"))), Code::kConflict);
  EXPECT_EQ(read("/a"), "new");
  EXPECT_EQ(read("/gone"), "not_found");
}

TEST_F(FileVerbsTest, AReplacedFileStillExpires) {
  std::int64_t soon = clock_.now().seconds * 1000 + 60'000;
  ASSERT_OK(write_file(fs_, "/a", as_bytes("old"), {.expires_at_ms = soon}));
  ASSERT_OK(replace_if_unchanged(fs_, "/a", "old", as_bytes("new")));
  EXPECT_EQ(*find_expiry(fs_, stat(fs_, "/a")->inode), soon);
}

TEST_F(FileVerbsTest, AFileThatDidNotExistIsCreatedWithItsDirectories) {
  ASSERT_OK(replace_if_unchanged(fs_, "/new/a", std::nullopt, as_bytes("x")));
  EXPECT_EQ(read("/new/a"), "x");
}

TEST_F(FileVerbsTest, ACopyGoesIntoAnExistingDirectory) {
  write("/a", "1");
  ASSERT_OK(make_dir(fs_, "/d"));
  EXPECT_EQ(copy_path(fs_, "/a", "/d", {}).value(), "/d/a");
  EXPECT_EQ(copy_path(fs_, "/a", "/b", {}).value(), "/b");
  EXPECT_EQ(read("/d/a"), "1");
  EXPECT_EQ(read("/b"), "1");
}

TEST_F(FileVerbsTest, ADirectoryIsCopiedOverAnotherOnlyIfTheyMayBeMerged) {
  write("/t/a", "new");
  write("/d/t/a", "old");
  write("/d/t/b", "b");
  EXPECT_EQ(error_of(copy_path(fs_, "/t", "/d", {.recursive = Recursive::kYes, .merge = MergeDirs::kNo})),
            Code::kExists);
  EXPECT_EQ(read("/d/t/a"), "old");
  EXPECT_EQ(copy_path(fs_, "/t", "/d", {.recursive = Recursive::kYes}).value(), "/d/t");
  EXPECT_EQ(read("/d/t/a"), "new");
  EXPECT_EQ(read("/d/t/b"), "b");
}

TEST_F(FileVerbsTest, ATreeIsCopiedWithLinksModesAndTimes) {
  write("/t/sub/f", "x");
  ASSERT_OK(make_symlink(fs_, "f", "/t/sub/l"));
  ASSERT_OK(set_mode(fs_, "/t/sub", 0700));
  ASSERT_OK(set_times(fs_, "/t/sub", SetTime::to({5, 6}), SetTime::to({7, 8})));
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(copy_path(fs_, "/t", "/copy", {.recursive = Recursive::kYes}));
  EXPECT_EQ(found({}, "/copy"), (Paths{"/copy", "/copy/sub", "/copy/sub/f", "/copy/sub/l"}));
  EXPECT_EQ(*read_link(fs_, "/copy/sub/l"), "f");
  Attributes sub = *stat(fs_, "/copy/sub");
  EXPECT_EQ(sub.mode & 07777U, 0700U);
  EXPECT_EQ(sub.mtime, (Timestamp{7, 8}));
}

TEST_F(FileVerbsTest, ADirectoryIsNotCopiedIntoItselfOrWithoutRecursive) {
  write("/t/f", "x");
  EXPECT_EQ(error_of(copy_path(fs_, "/t", "/c", {.recursive = Recursive::kNo})), Code::kIsDirectory);
  EXPECT_EQ(error_of(copy_path(fs_, "/t", "/t/inside", {.recursive = Recursive::kYes})), Code::kInvalid);
  EXPECT_EQ(error_of(copy_path(fs_, "/t", "/t", {.recursive = Recursive::kYes})), Code::kInvalid);
  EXPECT_EQ(error_of(copy_path(fs_, "/", "/t", {.recursive = Recursive::kYes})), Code::kInvalid);
  EXPECT_OK(
      copy_path(fs_, "/t", "/tt", {.recursive = Recursive::kYes}));  // not below /t, although the name begins the same
  EXPECT_EQ(found({}), (Paths{"/", "/t", "/t/f", "/tt", "/tt/f"}));
}

TEST_F(FileVerbsTest, MovingOntoADirectoryMovesIntoIt) {
  write("/a", "1");
  ASSERT_OK(make_dir(fs_, "/d"));
  ASSERT_OK(move_path(fs_, "/a", "/d", RenameMode::kReplace));
  EXPECT_EQ(read("/d/a"), "1");
  write("/a", "2");
  EXPECT_EQ(error_of(move_path(fs_, "/a", "/d", RenameMode::kNoReplace)), Code::kExists);
  EXPECT_EQ(read("/d/a"), "1");
}

// A filesystem of one mode, without links, in which something happens when a file is synced.
class PlainFs final : public ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;

  Result<Attributes> make_symlink(Inode, std::string_view, std::string_view, Owner) override {
    return Error(Code::kUnsupported, "no links here");
  }
  Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes) override {
    if (changes.mode || changes.uid || changes.gid) return Error(Code::kUnsupported, "all have the same mode");
    return inner().set_attributes(node, changes);
  }
  Status unlink(Inode parent, std::string_view name) override {
    ++unlinks;
    return unlink_fails ? Status(*unlink_fails) : inner().unlink(parent, name);
  }
  Status sync(Inode node) override {
    if (meanwhile) meanwhile();
    if (sync_fails) return Error(Code::kIo, "the disk is broken");
    return inner().sync(node);
  }

  std::function<void()> meanwhile;
  bool sync_fails = false;
  std::optional<Error> unlink_fails;
  int unlinks = 0;
};

class MoveTest : public FileVerbsTest {
 protected:
  MoveTest() { tree_ = MountFs::make(fs_, {{.path = "/m", .fs = plain_, .slot = 1}}, clock_).take_value(); }

  Status move(std::string_view from, std::string_view to) {
    return rename_or_copy(*tree_, from, to, RenameMode::kReplace);
  }
  std::string content(std::string_view path) {
    Result<std::string> text = read_file(*tree_, path);
    return text.ok() ? *text : std::string(name_of(text.error().code()));
  }

  MemoryFs other_{clock_};
  PlainFs plain_{other_};
  std::unique_ptr<MountFs> tree_;
};

TEST_F(MoveTest, ATreeMovesToAMountOfOneMode) {
  write("/tools/run", "#!/bin/sh\n");
  ASSERT_OK(set_mode(fs_, "/tools/run", 0755));
  ASSERT_OK(set_mode(fs_, "/tools", 0700));
  ASSERT_OK(move("/tools", "/m/tools"));
  EXPECT_EQ(content("/m/tools/run"), "#!/bin/sh\n");
  EXPECT_EQ(content("/tools/run"), "not_found");
}

TEST_F(MoveTest, TheTimeToLiveAndExtendedAttributesMoveToo) {
  std::int64_t soon = clock_.now().seconds * 1000 + 60'000;
  ASSERT_OK(write_file(fs_, "/d/a", as_bytes("x"), {.expires_at_ms = soon}));
  ASSERT_OK(set_xattr(fs_, "/d", "user.kind", as_bytes("notes")));
  ASSERT_OK(move("/d", "/m/d"));
  EXPECT_EQ(*find_expiry(other_, stat(other_, "/d/a")->inode), soon);
  EXPECT_EQ(get_xattr(other_, "/d", "user.kind").value(), "notes");
}

TEST_F(MoveTest, ATreeWithALinkStaysWhereLinksCannotBe) {
  write("/d/a", "x");
  ASSERT_OK(make_symlink(fs_, "a", "/d/l"));
  EXPECT_EQ(error_of(move("/d", "/m/d")), Code::kUnsupported);
  EXPECT_EQ(found({}, "/d"), (Paths{"/d", "/d/a", "/d/l"}));
  EXPECT_FALSE(exists(other_, "/d").value());
}

TEST_F(MoveTest, WhatIsWrittenDuringAMoveIsNotRemoved) {
  write("/d/a", "a");
  write("/d/b", "b");
  plain_.meanwhile = [&] {
    write("/d/b", "b and more");
    write("/d/new", "new");
  };
  Status moved = move("/d", "/m/d");
  EXPECT_EQ(error_of(moved), Code::kConflict);
  EXPECT_NE(moved.error().message().find("could not be removed completely"), std::string::npos)
      << moved.error().message();
  EXPECT_EQ(moved.error().hint().find("one of the two"), std::string::npos);
  EXPECT_EQ(read("/d/b"), "b and more");
  EXPECT_EQ(read("/d/new"), "new");
  EXPECT_EQ(content("/m/d/a"), "a");
}

TEST_F(MoveTest, ADirectoryWithSomethingNewStays) {
  write("/d/a", "a");
  plain_.meanwhile = [&] { write("/d/new", "new"); };
  EXPECT_EQ(error_of(move("/d", "/m/d")), Code::kNotEmpty);
  EXPECT_EQ(read("/d/new"), "new");
}

TEST_F(MoveTest, AFailedCopyRemovesOnlyWhatItMade) {
  write("/d/a", "x");
  ASSERT_OK(make_symlink(fs_, "a", "/d/l"));
  auto meanwhile = [&]() -> Status {
    if (!exists(other_, "/d/a").value()) return Ok{};
    return write_file(other_, "/d/theirs", as_bytes("kept"));
  };
  TreeCopy copy(*tree_, {.target = CopyTarget::kNew, .keeps = CopyKeeps::kAttributes, .check = meanwhile});
  EXPECT_EQ(error_of(copy.run("/d", "/m/d")), Code::kUnsupported);
  EXPECT_EQ(content("/m/d/theirs"), "kept");
  EXPECT_EQ(content("/m/d/a"), "not_found");
  TreeCopy again(*tree_, {.target = CopyTarget::kNew, .keeps = CopyKeeps::kAttributes, .check = {}});
  EXPECT_EQ(error_of(again.run("/d", "/m/d")), Code::kExists);
  EXPECT_EQ(content("/m/d/theirs"), "kept");
}

TEST_F(MoveTest, AFailedMoveLeavesAndNamesWhatOthersWroteToTheCopy) {
  write("/d/a", "a");
  write("/d/b", "b");
  write("/d/c", "c");
  plain_.meanwhile = [&] { ASSERT_OK(write_file(other_, "/d/a", as_bytes("A"))); };  // of the same size and time
  plain_.sync_fails = true;
  Status moved = move("/d", "/m/d");
  EXPECT_EQ(error_of(moved), Code::kIo);
  EXPECT_NE(moved.error().message().find("any more: '/m/d/a'"), std::string::npos) << moved.error().message();
  EXPECT_EQ(moved.error().message().find("/m/d/b"), std::string::npos) << moved.error().message();
  EXPECT_EQ(content("/m/d/a"), "A");
  EXPECT_EQ(found({}, "/d"), (Paths{"/d", "/d/a", "/d/b", "/d/c"}));
  EXPECT_FALSE(exists(other_, "/d/b").value());
}

TEST_F(MoveTest, ACopyWhoseOriginalIsGoneIsNotTakenBack) {
  write("/d/a", "a");
  plain_.meanwhile = [&] { ASSERT_OK(unlink(fs_, "/d/a")); };
  plain_.sync_fails = true;
  EXPECT_EQ(error_of(move("/d", "/m/d")), Code::kIo);
  EXPECT_EQ(content("/m/d/a"), "a");
}

TEST_F(MoveTest, ACopyThatWasWrittenAgainWithTheSameContentIsNotTakenBack) {
  write("/d/a", "a");
  plain_.meanwhile = [&] {
    clock_.advance_ns(1'000'000'000);
    ASSERT_OK(write_file(other_, "/d/a", as_bytes("a")));
  };
  plain_.sync_fails = true;
  EXPECT_EQ(error_of(move("/d", "/m/d")), Code::kIo);
  EXPECT_EQ(content("/m/d/a"), "a");
}

TEST_F(MoveTest, AnErrorSaysThatACopyCannotBeRemovedAndWhy) {
  for (const char* path : {"/d/a", "/d/b"}) write(path, "x");
  plain_.sync_fails = true;
  plain_.unlink_fails = Error(Code::kNoSpace, "the disk is full");
  Status moved = move("/d", "/m/d");
  EXPECT_EQ(error_of(moved), Code::kIo);
  EXPECT_EQ(moved.error().message(),
            "the disk is broken; the copy could not be removed again (the disk is full): '/m/d/b', '/m/d/a'");
  EXPECT_EQ(moved.error().hint(), "the original is complete; remove '/m/d' before it is tried again");
  EXPECT_EQ(plain_.unlinks, 2);
}

TEST_F(MoveTest, ABackendThatIsGoneIsAskedOnlyOnceToRemoveACopy) {
  for (const char* path : {"/d/a", "/d/b", "/d/c"}) write(path, "x");
  plain_.sync_fails = true;
  plain_.unlink_fails = Error(Code::kUnavailable, "the store is down");
  Status moved = move("/d", "/m/d");
  EXPECT_NE(moved.error().message().find("(the store is down): '/m/d/c', '/m/d/b', '/m/d/a', '/m/d'"),
            std::string::npos)
      << moved.error().message();
  EXPECT_EQ(plain_.unlinks, 1);
}

TEST_F(MoveTest, ACopyIntoItselfThroughAnotherMountEnds) {
  ASSERT_OK(write_file(other_, "/d/a", as_bytes("a")));
  auto both =
      MountFs::make(fs_, {{.path = "/m", .fs = plain_, .slot = 1}, {.path = "/n", .fs = other_, .slot = 2}}, clock_)
          .take_value();
  ASSERT_OK(copy_path(*both, "/m/d", "/n/d/sub", {.recursive = Recursive::kYes}));
  EXPECT_EQ(read_dir(other_, "/d").value(), (Paths{"a", "sub"}));
  EXPECT_EQ(read_dir(other_, "/d/sub").value(), (Paths{"a"}));
  EXPECT_EQ(error_of(rename_or_copy(*both, "/m/d", "/n/d/moved", RenameMode::kReplace)), Code::kNotEmpty);
  EXPECT_EQ(read_file(other_, "/d/moved/sub/a").value(), "a");
}

TEST_F(MoveTest, AStoppedCopyIntoADirectoryThatWasThereDoesNotAskToRemoveIt) {
  for (const char* path : {"/d/a", "/d/b", "/d/sub/c", "/d/sub/e"}) write(path, "x");
  ASSERT_OK(make_dirs(other_, "/d"));
  ASSERT_OK(write_file(other_, "/d/of the user", as_bytes("x")));
  auto stop = [&]() -> Status {
    if (!exists(other_, "/d/sub/c").value()) return Ok{};
    return Error(Code::kUnavailable, "the call was cancelled");
  };
  Result<std::string> copied = copy_path(*tree_, "/d", "/m", {.recursive = Recursive::kYes, .check = stop});
  ASSERT_EQ(error_of(copied), Code::kUnavailable);
  EXPECT_EQ(copied.error().message(),
            "the call was cancelled; 4 files and directories were already copied to '/m/d', and stay there");
  EXPECT_EQ(copied.error().hint(),
            "the original is complete; it can be tried again as it is; do not remove '/m/d': it was there before");
  ASSERT_OK(copy_path(*tree_, "/d", "/m", {.recursive = Recursive::kYes}));
  EXPECT_EQ(read_dir(other_, "/d").value(), (Paths{"a", "b", "of the user", "sub"}));
}

TEST_F(MoveTest, WhatStaysOfAStoppedCopyIsNotMoreOpenThanTheOriginal) {
  for (const char* path : {"/d/secret/a", "/d/secret/b"}) write(path, "x");
  ASSERT_OK(set_mode(fs_, "/d/secret", 0700));
  auto stop = [&]() -> Status {
    if (!exists(fs_, "/e/secret/a").value()) return Ok{};
    return Error(Code::kUnavailable, "the call was cancelled");
  };
  EXPECT_EQ(error_of(copy_path(fs_, "/d", "/e", {.recursive = Recursive::kYes, .check = stop})), Code::kUnavailable);
  EXPECT_EQ(read_dir(fs_, "/e/secret").value(), (Paths{"a"}));
  EXPECT_EQ(stat(fs_, "/e/secret").value().mode & 07777U, 0700U);
}

TEST_F(MoveTest, ACopyThatIsStoppedEndsBetweenTwoFilesAndSaysWhatStays) {
  for (const char* path : {"/d/a", "/d/b", "/d/c"}) write(path, "x");
  auto stop = [&]() -> Status {
    if (!exists(other_, "/d/a").value() && !exists(other_, "/e/a").value()) return Ok{};
    return Error(Code::kUnavailable, "the call was cancelled");
  };
  Result<std::string> copied = copy_path(*tree_, "/d", "/m/d", {.recursive = Recursive::kYes, .check = stop});
  EXPECT_EQ(error_of(copied), Code::kUnavailable);
  EXPECT_NE(copied.error().message().find("cancelled; 2 files and directories were already copied to '/m/d'"),
            std::string::npos)
      << copied.error().message();
  EXPECT_EQ(copied.error().hint(), "the original is complete; remove '/m/d' before it is tried again");
  EXPECT_EQ(read_dir(other_, "/d").value(), (Paths{"a"}));
  ASSERT_OK(remove(other_, "/d", {.recursive = Recursive::kYes}));
  EXPECT_EQ(error_of(rename_or_copy(*tree_, "/d", "/m/e", RenameMode::kReplace, stop)), Code::kUnavailable);
  EXPECT_EQ(read_dir(other_, "/e").value(), (Paths{"a"}));
  EXPECT_EQ(found({}, "/d"), (Paths{"/d", "/d/a", "/d/b", "/d/c"}));
}

// A filesystem in which somebody else is at work when a unit begins, or after a node was made.
class SharedFs final : public ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;
  Result<std::unique_ptr<Unit>> begin(UnitAccess access) override {
    if (access == UnitAccess::kWrite && before_unit) before_unit();
    return inner().begin(access);
  }
  Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node) override {
    Result<Attributes> made = inner().make_node(parent, name, node);
    if (after_make) after_make(name);
    return made;
  }

  std::function<void()> before_unit;
  std::function<void(std::string_view)> after_make;
};

// Two processes with one store; the other one writes through `theirs_`.
class FrontierTest : public MoveTest {
 protected:
  FrontierTest() {
    tree_ = MountFs::make(fs_, {{.path = "/s", .fs = shared_, .slot = 1}}, clock_).take_value();
    for (const char* path : {"/d/a", "/d/b", "/d/c"}) write(path, "ours");
    for (const char* path : {"/d/a", "/d/b", "/d/c"}) EXPECT_OK(write_file(theirs_, path, as_bytes("ours")));
  }
  // The other one makes the second file when the first one is there.
  void write_next(const std::string& dir) {
    if (!exists(theirs_, dir + "/a").value() || exists(theirs_, dir + "/b").value()) return;
    ASSERT_OK(write_file(theirs_, dir + "/b", as_bytes("theirs")));
  }
  template <class Copied>
  void expect_theirs(const Copied& copied, const std::string& dir) {
    EXPECT_EQ(error_of(copied), Code::kExists);
    EXPECT_EQ(copied.error().message(), "'/s" + dir + "/b' was made by somebody else meanwhile");
    EXPECT_EQ(read_dir(theirs_, dir).value(), (Paths{"b"}));
    EXPECT_EQ(read_file(theirs_, dir + "/b").value(), "theirs");
  }

  MemoryBlobs store_{clock_};
  BlobFs ours_{store_, clock_};
  BlobFs theirs_{store_, clock_};
  SharedFs shared_{ours_};
};

TEST_F(FrontierTest, AFileThatSomebodyElseMakesBeforeTheCopyGetsThereIsTheirs) {
  shared_.before_unit = [&] { write_next("/across"); };
  expect_theirs(copy_path(*tree_, "/d", "/s/across", {.recursive = Recursive::kYes}), "/across");
  shared_.before_unit = [&] { write_next("/within"); };
  expect_theirs(copy_path(*tree_, "/s/d", "/s/within", {.recursive = Recursive::kYes}), "/within");
  shared_.before_unit = [&] { write_next("/moved"); };
  expect_theirs(rename_or_copy(*tree_, "/s/d", "/s/moved", RenameMode::kReplace), "/moved");
  EXPECT_EQ(read_dir(theirs_, "/d").value(), (Paths{"a", "b", "c"}));
}

TEST_F(FrontierTest, AFileThatSomebodyElseMakesWhileItIsCopiedIsTheirs) {
  auto make_same = [&](const std::string& dir) {
    return [this, dir](std::string_view name) {
      if (name != "b") return;
      ASSERT_OK(write_file(theirs_, dir + "/b", as_bytes("theirs")));
    };
  };
  shared_.after_make = make_same("/across");
  expect_theirs(copy_path(*tree_, "/d", "/s/across", {.recursive = Recursive::kYes}), "/across");
  shared_.after_make = make_same("/within");
  expect_theirs(copy_path(*tree_, "/s/d", "/s/within", {.recursive = Recursive::kYes}), "/within");
}

TEST_F(FrontierTest, AFileOfTheAgentFileThatSomebodyElseMakesIsTheirs) {
  SharedFs agent_file(fs_);
  auto tree = MountFs::make(agent_file, {{.path = "/s", .fs = shared_, .slot = 1}}, clock_).take_value();
  agent_file.before_unit = [&] {
    if (exists(fs_, "/new/a").value() && !exists(fs_, "/new/b").value()) write("/new/b", "theirs");
  };
  EXPECT_EQ(error_of(copy_path(*tree, "/s/d", "/new", {.recursive = Recursive::kYes})), Code::kExists);
  EXPECT_EQ(found({}, "/new"), (Paths{"/new", "/new/b"}));
  EXPECT_EQ(read("/new/b"), "theirs");
}

// As where other rules hold.
class NoRenameFs final : public ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;
  Status rename(Inode, std::string_view, Inode, std::string_view, RenameMode) override {
    return Error(Code::kCrossDevice, "other rules");
  }
};

TEST_F(MoveTest, ADirectoryIsNotMovedIntoItselfByCopying) {
  write("/d/e/a", "a");
  NoRenameFs view(fs_);
  Status moved = rename_or_copy(view, "/d", "/d/e/f", RenameMode::kReplace);
  EXPECT_EQ(error_of(moved), Code::kInvalid);
  EXPECT_FALSE(moved.error().hint().empty());
  EXPECT_EQ(found({}, "/d"), (Paths{"/d", "/d/e", "/d/e/a"}));
}

TEST_F(MoveTest, WhatLeadsToAMountIsNotCopiedToBeMoved) {
  auto nested = MountFs::make(fs_, {{.path = "/a/m", .fs = plain_, .slot = 1}}, clock_).take_value();
  write("/a/own", "x");
  ASSERT_OK(write_file(*nested, "/a/m/file", as_bytes("y")));
  NoRenameFs view(*nested);
  EXPECT_EQ(error_of(rename_or_copy(view, "/a", "/b", RenameMode::kReplace)), Code::kBusy);
  EXPECT_FALSE(exists(fs_, "/b").value());
  EXPECT_EQ(read_file(*nested, "/a/m/file").value(), "y");
}

TEST(Mode, IsWrittenInOctalOrAsAChange) {
  EXPECT_EQ(*apply_mode("644", S_IFREG | 0777U), 0644U);
  EXPECT_EQ(*apply_mode("04755", S_IFREG | 0U), 04755U);
  EXPECT_EQ(*apply_mode("u+x", S_IFREG | 0644U), 0744U);
  EXPECT_EQ(*apply_mode("go-rwx", S_IFREG | 0777U), 0700U);
  EXPECT_EQ(*apply_mode("a=r,u+w", S_IFREG | 0777U), 0644U);
  EXPECT_EQ(*apply_mode("+X", S_IFDIR | 0644U), 0755U);
  EXPECT_EQ(*apply_mode("+X", S_IFREG | 0644U), 0644U);
  EXPECT_EQ(*apply_mode("u+s,g+s", S_IFREG | 0755U), 06755U);
  for (const char* bad : {"", "8", "77777", "u", "+q", "x+w", "u+x,", "0x1"}) {
    EXPECT_EQ(error_of(apply_mode(bad, S_IFREG | 0644U)), Code::kInvalid) << bad;
  }
}

TEST_F(FileVerbsTest, ModesOfATreeChangeButLinksDoNot) {
  write("/out", "x");
  write("/t/f", "x");
  ASSERT_OK(make_symlink(fs_, "/out", "/t/l"));
  ASSERT_OK(change_mode(fs_, "/t", "go=", Recursive::kYes));
  EXPECT_EQ(stat(fs_, "/t/f")->mode & 07777U, 0600U);
  EXPECT_EQ(stat(fs_, "/out")->mode & 07777U, 0644U);
}

TEST_F(FileVerbsTest, TouchMakesAFileAndSetsItsTimes) {
  ASSERT_OK(touch(fs_, "/none", {.time = SetTime::now(), .create = Create::kNo}));
  EXPECT_EQ(read("/none"), "not_found");
  ASSERT_OK(touch(fs_, "/new", {.time = SetTime::to({9, 0})}));
  EXPECT_EQ(stat(fs_, "/new")->mtime, (Timestamp{9, 0}));
  EXPECT_EQ(read("/new"), "");
}

TEST_F(FileVerbsTest, FindLooksAtNameTypeSizeTimeAndDepth) {
  write("/a.md", "12345");
  write("/d/b.md", "1");
  write("/d/e/c.txt", "");
  ASSERT_OK(make_symlink(fs_, "x", "/d/link"));
  ASSERT_OK(set_times(fs_, "/a.md", SetTime::to({1, 0}), SetTime::to({1, 0})));
  EXPECT_EQ(found({.name = "*.md"}), (Paths{"/a.md", "/d/b.md"}));
  EXPECT_EQ(found({.name = "[b-c].*"}), (Paths{"/d/b.md", "/d/e/c.txt"}));
  EXPECT_EQ(found({.type = S_IFLNK}), (Paths{"/d/link"}));
  EXPECT_EQ(found({.type = S_IFREG, .size_min = 2}), (Paths{"/a.md"}));
  EXPECT_EQ(found({.type = S_IFREG, .size_max = 0}), (Paths{"/d/e/c.txt"}));
  EXPECT_EQ(found({.name = "*.md", .newer = Timestamp{2, 0}}), (Paths{"/d/b.md"}));
  EXPECT_EQ(found({.depth_max = 1}), (Paths{"/", "/a.md", "/d"}));
  EXPECT_EQ(found({.depth_max = 0}, "/d"), (Paths{"/d"}));
}

TEST_F(FileVerbsTest, DiskUsageCountsAHardLinkOnceAndEachDirectoryAfterWhatIsInIt) {
  write("/d/a", "1234");
  ASSERT_OK(link(fs_, "/d/a", "/d/b"));
  write("/d/e/c", "12");
  write("/top", "1");
  std::vector<std::pair<std::string, std::uint64_t>> seen;
  Result<DiskUsage> total = disk_usage(fs_, "/", [&](std::string_view path, const DiskUsage& usage) -> Status {
    seen.emplace_back(path, usage.bytes);
    return Ok{};
  });
  ASSERT_OK(total);
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, std::uint64_t>>{{"/d/e", 2}, {"/d", 6}, {"/", 7}}));
  EXPECT_EQ(total->bytes, 7U);
  EXPECT_EQ(total->files, 4U);
  EXPECT_EQ(total->directories, 3U);
}

TEST_F(FileVerbsTest, AListingOfAFileIsTheFile) {
  write("/d/a", "1");
  ASSERT_OK(make_symlink(fs_, "d", "/l"));
  ASSERT_OK(make_symlink(fs_, "nowhere", "/broken"));
  EXPECT_TRUE(list_path(fs_, "/d")->is_directory);
  EXPECT_EQ(list_path(fs_, "/d/a")->entries.at(0).name, "/d/a");
  EXPECT_EQ(list_path(fs_, "/l")->entries.at(0).name, "a");
  EXPECT_TRUE(list_path(fs_, "/broken")->entries.at(0).attributes.is_symlink());
  EXPECT_EQ(error_of(list_path(fs_, "/nowhere")), Code::kNotFound);
}

}  // namespace
}  // namespace warren
