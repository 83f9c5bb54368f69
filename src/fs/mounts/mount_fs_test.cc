#include "fs/mounts/mount_fs.h"

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/path.h"
#include "fs/forwarding_fs.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class MountFsTest : public ::testing::Test {
 protected:
  MountFsTest() {
    EXPECT_TRUE(make_dirs(root_, "/mem").ok());
    EXPECT_TRUE(write_file(root_, "/mem/plain", as_bytes("own")).ok());
    EXPECT_TRUE(write_file(root_, "/mem/working/covered", as_bytes("covered")).ok());
    tree_ = make({{.path = "/mem/working", .fs = working_, .slot = 1}, {.path = "/ipc/in/box", .fs = box_, .slot = 9}})
                .take_value();
  }

  Result<std::unique_ptr<MountFs>> make(const std::vector<Mount>& mounts) {
    return MountFs::make(root_, mounts, clock_);
  }
  Inode create_in(const std::string& dir) {
    EXPECT_TRUE(write_file(*tree_, join_path(dir, "file"), as_bytes("old")).ok());
    return stat(*tree_, join_path(dir, "file"))->inode;
  }
  Code code(const Status& status) { return status.ok() ? Code{} : status.error().code(); }
  template <class T>
  Code code(const Result<T>& result) {
    return result.ok() ? Code{} : result.error().code();
  }

  testing::FakeClock clock_;
  MemoryFs root_{clock_};
  MemoryFs working_{clock_};
  MemoryFs box_{clock_};
  std::unique_ptr<MountFs> tree_;
};

TEST_F(MountFsTest, NothingIsRemovedForAMountPointThatStays) {
  ASSERT_TRUE(write_file(*tree_, "/mem/working/dir/a", as_bytes("in memory")).ok());
  ASSERT_TRUE(write_file(*tree_, "/ipc/in/box/b", as_bytes("in the box")).ok());
  ASSERT_TRUE(make_dirs(root_, "/ipc/in").ok());
  ASSERT_TRUE(write_file(root_, "/ipc/in/c", as_bytes("beside it")).ok());
  for (const char* path : {"/mem/working", "/mem", "/ipc", "/ipc/in", "/ipc/in/box"}) {
    Status removed = remove(*tree_, path, {.recursive = Recursive::kYes});
    EXPECT_EQ(code(removed), Code::kBusy) << path;
    EXPECT_THAT(removed.error().message(), HasSubstr("nothing was changed"));
  }
  EXPECT_EQ(read_file(*tree_, "/mem/working/dir/a").value(), "in memory");
  EXPECT_EQ(read_file(*tree_, "/mem/plain").value(), "own");
  EXPECT_EQ(read_file(*tree_, "/ipc/in/box/b").value(), "in the box");
  EXPECT_EQ(read_file(*tree_, "/ipc/in/c").value(), "beside it");
  EXPECT_TRUE(remove(*tree_, "/mem/working/dir", {.recursive = Recursive::kYes}).ok());
}

// Before and after the directories that lead to a mount exist below.
TEST_F(MountFsTest, NothingIsRemovedThatOnlyLeadsToAMount) {
  ASSERT_TRUE(write_file(*tree_, "/ipc/in/box/b", as_bytes("in the box")).ok());
  for (const char* path : {"/ipc", "/ipc/in"}) {
    EXPECT_EQ(code(remove(*tree_, path, {.recursive = Recursive::kYes})), Code::kBusy) << path;
  }
  EXPECT_EQ(read_file(*tree_, "/ipc/in/box/b").value(), "in the box");
}

TEST_F(MountFsTest, ShowsTheMountAndNotWhatItCovers) {
  EXPECT_FALSE(exists(*tree_, "/mem/working/covered").value());
  ASSERT_TRUE(write_file(*tree_, "/mem/working/a", as_bytes("in memory")).ok());
  EXPECT_EQ(read_file(working_, "/a").value(), "in memory");
  EXPECT_FALSE(exists(root_, "/mem/working/a").value());
  EXPECT_EQ(read_file(*tree_, "/mem/plain").value(), "own");
}

TEST_F(MountFsTest, MatchesWholeNamesOnly) {
  ASSERT_TRUE(write_file(*tree_, "/mem/workingX", as_bytes("1")).ok());
  ASSERT_TRUE(write_file(*tree_, "/working/x", as_bytes("2")).ok());
  EXPECT_EQ(read_file(root_, "/mem/workingX").value(), "1");
  EXPECT_EQ(read_file(root_, "/working/x").value(), "2");
  EXPECT_THAT(read_dir(working_, "/").value(), ElementsAre());
}

TEST_F(MountFsTest, ListsMountsOnceAmongTheOtherNames) {
  EXPECT_THAT(read_dir(*tree_, "/mem").value(), ElementsAre("plain", "working"));
  EXPECT_THAT(read_dir(*tree_, "/").value(), ElementsAre("ipc", "mem"));
  std::unique_ptr<DirStream> stream = tree_->open_dir(stat(*tree_, "/mem")->inode).take_value();
  std::vector<std::string> names;
  std::uint64_t cookie = 0;
  for (;;) {
    std::vector<DirEntry> page = stream->read(cookie, 1, DirDetail::kAttributes).take_value();
    if (page.empty()) break;
    EXPECT_EQ(page[0].attributes->inode, lstat(*tree_, "/mem/" + page[0].name)->inode);
    names.push_back(page[0].name);
    cookie = page[0].cookie;
  }
  EXPECT_THAT(names, UnorderedElementsAre("plain", "working"));
}

TEST_F(MountFsTest, ShowsMissingParentsAsDirectoriesThatHoldNothingElse) {
  EXPECT_TRUE(stat(*tree_, "/ipc/in")->is_directory());
  EXPECT_THAT(read_dir(*tree_, "/ipc/in").value(), ElementsAre("box"));
  EXPECT_EQ(code(write_file(*tree_, "/ipc/other", as_bytes(""))), Code::kReadOnly);
  EXPECT_EQ(code(make_dir(*tree_, "/ipc/in/box")), Code::kExists);
  EXPECT_EQ(code(unlink(*tree_, "/ipc/none")), Code::kNotFound);
  ASSERT_TRUE(write_file(*tree_, "/ipc/in/box/1", as_bytes("x")).ok());
  EXPECT_EQ(read_file(box_, "/1").value(), "x");
  ASSERT_TRUE(make_dirs(root_, "/ipc/in").ok());  // by another door
  EXPECT_TRUE(write_file(*tree_, "/ipc/in/other", as_bytes("y")).ok());
  EXPECT_EQ(read_file(root_, "/ipc/in/other").value(), "y");
}

TEST_F(MountFsTest, FollowsAMountPointWhenItsParentIsRenamedByAnotherDoor) {
  Inode before = stat(*tree_, "/mem")->inode;
  ASSERT_TRUE(rename(root_, "/mem", "/moved").ok());
  EXPECT_TRUE(write_file(*tree_, "/mem/working/a", as_bytes("x")).ok());
  EXPECT_TRUE(exists(working_, "/a").value());
  EXPECT_EQ(stat(*tree_, "/moved")->inode, before);
  EXPECT_THAT(read_dir(*tree_, "/moved").value(), ElementsAre("plain", "working"));
  EXPECT_EQ(read_file(*tree_, "/moved/working/covered").value(), "covered");
}

TEST_F(MountFsTest, DoesNotFollowALinkInPlaceOfAParent) {
  ASSERT_TRUE(make_symlink(root_, "/mem", "/ipc").ok());
  EXPECT_TRUE(lstat(*tree_, "/ipc")->is_directory());
  EXPECT_THAT(read_dir(*tree_, "/ipc").value(), ElementsAre("in"));
}

TEST_F(MountFsTest, KeepsMountPointsAndTheirParents) {
  for (const char* path : {"/mem", "/mem/working", "/ipc", "/ipc/in/box"}) {
    EXPECT_EQ(code(remove_dir(*tree_, path)), Code::kBusy) << path;
    EXPECT_EQ(code(rename(*tree_, path, "/away")), Code::kBusy) << path;
    EXPECT_EQ(code(unlink(*tree_, path)), Code::kIsDirectory) << path;
  }
  ASSERT_TRUE(make_dir(*tree_, "/dir").ok());
  EXPECT_EQ(code(rename(*tree_, "/dir", "/mem")), Code::kBusy);
  EXPECT_EQ(code(rename(*tree_, "/dir", "/mem/working", RenameMode::kExchange)), Code::kBusy);
}

TEST_F(MountFsTest, MovesNothingBetweenMounts) {
  ASSERT_TRUE(write_file(*tree_, "/mem/working/a", as_bytes("x")).ok());
  EXPECT_EQ(code(rename(*tree_, "/mem/working/a", "/a")), Code::kCrossDevice);
  EXPECT_EQ(code(link(*tree_, "/mem/working/a", "/a")), Code::kCrossDevice);
  Inode from = stat(*tree_, "/mem/working/a")->inode;
  Inode to = stat(*tree_, "/mem/plain")->inode;
  EXPECT_EQ(code(tree_->copy_range(from, 0, to, 0, 1)), Code::kCrossDevice);
  EXPECT_EQ(read_file(*tree_, "/mem/working/a").value(), "x");
}

TEST_F(MountFsTest, KeepsNumbersOverARestart) {
  ASSERT_TRUE(write_file(*tree_, "/mem/working/a", as_bytes("x")).ok());
  Inode before = stat(*tree_, "/mem/working/a")->inode;
  EXPECT_NE(before, stat(working_, "/a")->inode);
  EXPECT_EQ(stat(*tree_, "/mem/plain")->inode, stat(root_, "/mem/plain")->inode);
  auto again = make({{.path = "/new", .fs = box_, .slot = 3}, {.path = "/mem/working", .fs = working_, .slot = 1}});
  EXPECT_EQ(stat(**again, "/mem/working/a")->inode, before);
}

// A stranger's file can contain any number: one that looks like a node of another mount must not become that node.
class HugeNumbers final : public ForwardingFs {
 public:
  explicit HugeNumbers(FileSystem& inner) : ForwardingFs(inner) {}
  Result<Attributes> lookup(Inode parent, std::string_view name) override {
    Attributes found = WARREN_TRY(inner().lookup(parent, name));
    if (name == "huge") found.inode = Inode{(std::uint64_t{1} << 56) + 1};
    return found;
  }
};

TEST_F(MountFsTest, RefusesANumberThatWouldBeAnotherMountsNode) {
  ASSERT_TRUE(write_file(root_, "/huge", as_bytes("x")).ok());
  HugeNumbers root(root_);
  auto tree = MountFs::make(root, {{.path = "/m", .fs = working_, .slot = 1}}, clock_).take_value();
  EXPECT_EQ(code(stat(*tree, "/huge")), Code::kCorrupt);
}

TEST_F(MountFsTest, RefusesMountsThatCannotBe) {
  auto message = [&](const std::vector<Mount>& mounts) {
    auto made = make(mounts);
    return made.ok() ? std::string() : made.error().message();
  };
  EXPECT_THAT(message({{.path = "/", .fs = box_, .slot = 1}}), HasSubstr("root"));
  EXPECT_THAT(message({{.path = "/a/../b", .fs = box_, .slot = 1}}), HasSubstr("'..'"));
  EXPECT_THAT(message({{.path = "/a", .fs = box_, .slot = 63}}), HasSubstr("at most 62"));
  EXPECT_THAT(message({{.path = "/a", .fs = box_, .slot = 1}, {.path = "/b", .fs = box_, .slot = 1}}),
              HasSubstr("mount '/b': slot 1"));
  EXPECT_THAT(message({{.path = "/a", .fs = box_, .slot = 1}, {.path = "//a/.", .fs = box_, .slot = 2}}),
              HasSubstr("already"));
}

TEST_F(MountFsTest, ShowsAMountInAMount) {
  auto tree = make({{.path = "/a/b/c", .fs = box_, .slot = 2}, {.path = "/a", .fs = working_, .slot = 1}}).take_value();
  ASSERT_TRUE(write_file(*tree, "/a/own", as_bytes("1")).ok());
  ASSERT_TRUE(write_file(*tree, "/a/b/c/own", as_bytes("2")).ok());
  EXPECT_TRUE(exists(working_, "/own").value());
  EXPECT_TRUE(exists(box_, "/own").value());
  EXPECT_THAT(read_dir(*tree, "/a").value(), ElementsAre("b", "own"));
}

TEST_F(MountFsTest, GivesTheStatisticsOfTheMountThatWasAsked) {
  ASSERT_TRUE(write_file(*tree_, "/mem/working/a", as_bytes("x")).ok());
  EXPECT_EQ(tree_->stats(stat(*tree_, "/mem/working/a")->inode)->used_inodes, 2U);
  EXPECT_EQ(tree_->stats(kRootInode)->used_inodes, root_.stats(kRootInode)->used_inodes);
}

TEST_F(MountFsTest, AUnitStaysInTheMountItChanged) {
  Inode in_working = create_in("/mem/working");
  Inode in_root = create_in("/");
  std::unique_ptr<Unit> unit = tree_->begin(UnitAccess::kWrite).take_value();
  ASSERT_TRUE(tree_->get_attributes(in_root).ok());  // reads elsewhere before the first change are allowed
  ASSERT_TRUE(tree_->write(in_working, 0, as_bytes("x")).ok());
  EXPECT_EQ(code(tree_->write(in_root, 0, as_bytes("x"))), Code::kCrossDevice);
  EXPECT_EQ(code(tree_->get_attributes(in_root)), Code::kCrossDevice);
  EXPECT_TRUE(stat(*tree_, "/mem/working").ok());  // the way to the mount can still be walked
  ASSERT_TRUE(unit->commit().ok());
  EXPECT_TRUE(tree_->write(in_root, 0, as_bytes("x")).ok());  // the unit is over
}

// Each thread holds one mount and walks through the other one's directories.
TEST_F(MountFsTest, TwoUnitsInTwoMountsDoNotWaitForEachOther) {
  auto work = [&](const std::string& dir) {
    for (int i = 0; i < 500; ++i) {
      std::unique_ptr<Unit> unit = tree_->begin(UnitAccess::kWrite).take_value();
      EXPECT_TRUE(write_file(*tree_, dir + "/a", as_bytes("x")).ok());
      EXPECT_TRUE(stat(*tree_, "/mem/working").ok());
      EXPECT_TRUE(stat(*tree_, "/ipc/in/box").ok());
      EXPECT_TRUE(unit->commit().ok());
    }
  };
  auto done = std::async(std::launch::async, [&] {
    std::thread other([&] { work("/mem/working"); });
    work("/mem");
    other.join();
  });
  ASSERT_EQ(done.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "deadlock";
}

class Heard final : public ChangeListener {
 public:
  void entry_changed(Inode parent, std::string_view name) override { entries.emplace_back(parent, name); }
  void node_changed(Inode node) override { nodes.push_back(node); }
  void everything_changed() override { ++all; }
  std::vector<std::pair<Inode, std::string>> entries;
  std::vector<Inode> nodes;
  int all = 0;
};

class Noisy final : public ForwardingFs {
 public:
  explicit Noisy(FileSystem& inner) : ForwardingFs(inner) {}
  Status listen(ChangeListener* now) override {
    if (is_deaf) return Error(Code::kUnsupported, "cannot notice changes");
    listener = now;
    return Ok{};
  }
  ChangeListener* listener = nullptr;
  bool is_deaf = false;
};

TEST_F(MountFsTest, TranslatesNoticesOfChanges) {
  Noisy noisy(working_);
  auto tree = make({{.path = "/m", .fs = noisy, .slot = 4}}).take_value();
  Heard heard;
  ASSERT_TRUE(tree->listen(&heard).ok());
  noisy.listener->entry_changed(kRootInode, "a");
  noisy.listener->node_changed(Inode{7});
  noisy.listener->node_changed(Inode{std::uint64_t{9} << 56});
  Inode root = stat(*tree, "/m")->inode;
  EXPECT_THAT(heard.entries, ElementsAre(std::pair(root, std::string("a"))));
  EXPECT_THAT(heard.nodes, ElementsAre(Inode{root.value + 6}));
  EXPECT_EQ(heard.all, 1);
  ASSERT_TRUE(tree->listen(nullptr).ok());
  EXPECT_EQ(noisy.listener, nullptr);
}

TEST_F(MountFsTest, ListensToAllOrNone) {
  Noisy first(working_);
  Noisy deaf(box_);
  deaf.is_deaf = true;
  auto tree = make({{.path = "/a", .fs = first, .slot = 1}, {.path = "/b", .fs = deaf, .slot = 2}}).take_value();
  Heard heard;
  EXPECT_EQ(code(tree->listen(&heard)), Code::kUnsupported);
  EXPECT_EQ(first.listener, nullptr);
}

}  // namespace
}  // namespace warren
