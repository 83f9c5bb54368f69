// A disk that fails while a store for a mount has changes that it acknowledged and has not stored.
#include <gtest/gtest.h>

#include "db/faulty_vfs_testing.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "store/tables/usage.h"
#include "store/transaction_unit.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::DiskCall;
using testing::DiskFault;
using testing::error_of;
using testing::FakeClock;
using testing::FaultLasts;
using testing::FaultyVfs;
using testing::TempDir;

class GroupedFaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(Store::open(path_, {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_));
    store_ = Store::open(path_, {.durability = Durability::kProcess, .commits = Commits::kGrouped, .vfs = disk_.name()},
                         clock_)
                 .value();
  }
  FileSystem& fs() { return store_->fs(); }
  Inode make(std::string_view name, std::string_view content) {
    Inode file = fs().make_node(kRootInode, name, {.mode = 0600})->inode;
    EXPECT_OK(fs().write(file, 0, as_bytes(content)));
    return file;
  }

  TempDir dir_;
  std::string path_ = dir_.file("a.db");
  FakeClock clock_;
  FaultyVfs disk_;
  std::unique_ptr<Store> store_;
};

TEST_F(GroupedFaultTest, WhatWasDoneStaysUntilTheDiskTakesItAndEverySyncReportsTheFailure) {
  for (DiskFault fault : {DiskFault::kNoSpace, DiskFault::kIo}) {
    std::string name = fault == DiskFault::kIo ? "io" : "full";
    disk_.heal();
    Inode before = make(name + "-before", "stored");
    ASSERT_OK(fs().sync(before));
    disk_.fail({.call = DiskCall::kWrite, .fault = fault, .lasts = FaultLasts::kFromThenOn});
    Inode file = make(name, std::string(200'000, 'x'));
    ASSERT_OK(fs().unlink(kRootInode, name + "-before"));
    ASSERT_OK(fs().make_symlink(kRootInode, name + "-link", "target", {}));
    Code expected = fault == DiskFault::kIo ? Code::kIo : Code::kNoSpace;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(error_of(fs().sync(file)), expected);
      EXPECT_EQ(read_file(fs(), "/" + name)->size(), 200'000U);
      EXPECT_EQ(*fs().read_link(fs().lookup(kRootInode, name + "-link")->inode), "target");
      EXPECT_EQ(error_of(stat(fs(), "/" + name + "-before")), Code::kNotFound);
    }
    EXPECT_EQ(error_of(fs().write(file, 0, as_bytes("more"))), expected) << "nothing is added to a full disk";
    disk_.heal();
    ASSERT_OK(fs().sync(file));
    EXPECT_OK(fs().write(file, 0, as_bytes("more")));
    auto other = Store::open(path_, {.mode = OpenMode::kReadOnly}, clock_).value();
    EXPECT_EQ(read_file(other->fs(), "/" + name)->size(), 200'000U);
    EXPECT_EQ(error_of(stat(other->fs(), "/" + name + "-before")), Code::kNotFound);
  }
}

// A unit that is dropped half-way is taken back, and the changes before it stay.
TEST_F(GroupedFaultTest, AChangeThatFailsHalfWayIsTakenBackAlone) {
  ASSERT_OK(fs().make_dir(kRootInode, "d", {.mode = 0700}));
  Inode dir = fs().lookup(kRootInode, "d")->inode;
  Inode file = make("f", std::string(100'000, 'a'));
  ASSERT_OK(fs().sync(file));
  Inode earlier = make("earlier", "kept");
  {
    // A unit that is dropped after it has changed rows and content, some kept in memory, some in SQLite.
    auto unit = TransactionUnit::begin(store_->database(), Access::kSharedWrite).value();
    ASSERT_OK(fs().rename(kRootInode, "f", dir, "g", RenameMode::kReplace));
    ASSERT_OK(fs().write(file, 50'000, as_bytes(std::string(90'000, 'b'))));
    ASSERT_OK(fs().write(earlier, 0, as_bytes("lost")));
    ASSERT_OK(fs().unlink(kRootInode, "earlier"));
    ASSERT_OK(fs().make_symlink(dir, "link", "target", {}));
    EXPECT_EQ(list_names(fs(), dir)->size(), 2U);
  }
  EXPECT_EQ(*read_file(fs(), "/f"), std::string(100'000, 'a'));
  EXPECT_EQ(*read_file(fs(), "/earlier"), "kept");
  EXPECT_TRUE(list_names(fs(), dir)->empty());
  ASSERT_OK(fs().sync(file));
  auto other = Store::open(path_, {.mode = OpenMode::kReadOnly}, clock_).value();
  EXPECT_EQ(*read_file(other->fs(), "/earlier"), "kept");
  EXPECT_TRUE(list_names(other->fs(), dir)->empty());
}

TEST_F(GroupedFaultTest, AChangeThatIsTakenBackCountsNothingOfTheQuota) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 100'000, .inodes = 10}));
  Inode file = make("f", std::string(50'000, 'a'));
  for (int i = 0; i < 5; ++i) {
    auto unit = TransactionUnit::begin(store_->database(), Access::kSharedWrite).value();
    ASSERT_OK(fs().write(file, 50'000, as_bytes(std::string(40'000, 'b'))));
    ASSERT_OK(fs().make_node(kRootInode, "g" + std::to_string(i), {.mode = 0600}));
  }
  ASSERT_OK(fs().sync(file));
  EXPECT_EQ(store_->usage().used()->bytes, 50'000U);
  EXPECT_EQ(store_->usage().used()->inodes, 2U);
  EXPECT_OK(fs().write(file, 50'000, as_bytes(std::string(50'000, 'c'))));
  EXPECT_EQ(error_of(fs().write(file, 100'000, as_bytes("d"))), Code::kNoSpace);
  ASSERT_OK(fs().sync(file));
  EXPECT_EQ(store_->usage().used()->bytes, 100'000U);
}

TEST_F(GroupedFaultTest, ACloseThatFailsSaysWhatIsLost) {
  Inode safe = make("safe", "stored");
  ASSERT_OK(fs().sync(safe));
  disk_.fail({.call = DiskCall::kWrite, .fault = DiskFault::kNoSpace, .lasts = FaultLasts::kFromThenOn});
  make("late", "x");
  Status closed = store_->close();
  EXPECT_EQ(error_of(closed), Code::kNoSpace);
  EXPECT_NE(closed.error().message().find("'/late'"), std::string::npos) << closed.error().message();
  EXPECT_NE(closed.error().message().find(path_), std::string::npos) << closed.error().message();
  store_.reset();
  disk_.heal();
  auto after = Store::open(path_, {.mode = OpenMode::kReadOnly}, clock_).value();
  EXPECT_EQ(*read_file(after->fs(), "/safe"), "stored");
  EXPECT_EQ(error_of(stat(after->fs(), "/late")), Code::kNotFound);
}

// Every disk call fails once, in turn, and then the disk is well: what was accepted is stored, or its fsync says that
// it was not.
TEST_F(GroupedFaultTest, AnFsyncThatSucceedsHasStoredWhatWasAccepted) {
  for (int nth = 1; nth <= 200; ++nth) {
    std::string name = "f" + std::to_string(nth);
    Inode file = fs().create(kRootInode, name, {.mode = 0600})->inode;
    ASSERT_OK(fs().sync(file));
    disk_.fail({.nth = nth, .call = DiskCall::kAny, .fault = DiskFault::kIo, .lasts = FaultLasts::kOnce});
    bool is_accepted = fs().write(file, 0, as_bytes(std::string(20'000, 'x'))).ok();
    bool is_stored = fs().sync(file).ok();
    bool has_fired = disk_.fired();
    disk_.heal();
    if (!is_stored) is_stored = fs().sync(file).ok();
    auto other = Store::open(path_, {.mode = OpenMode::kReadOnly}, clock_).value();
    if (is_accepted && is_stored) {
      EXPECT_EQ(read_file(other->fs(), "/" + name)->size(), 20'000U) << nth;
    }
    fs().release(file);
    if (!has_fired) return;
  }
}

// As above, for reads: a change in the middle of a chunk, a shorter file, a new name and a lost one all need rows that
// nobody has in memory.
TEST_F(GroupedFaultTest, AReadThatFailsWithinAChangeLosesNothingThatWasAccepted) {
  const std::string old(50'000, 'a');
  bool has_fired = true;
  int fired = 0;
  for (int nth = 1; has_fired; ++nth) {
    std::string name = "f" + std::to_string(nth);
    make(name, old);
    make(name + "-cut", old);
    make(name + "-gone", old);
    ASSERT_OK(store_->close());
    store_ = Store::open(path_, {.durability = Durability::kProcess, .commits = Commits::kGrouped, .vfs = disk_.name()},
                         clock_)
                 .value();
    Inode file = fs().lookup(kRootInode, name)->inode;
    Inode cut = fs().lookup(kRootInode, name + "-cut")->inode;
    ASSERT_OK(fs().retain(file));
    ASSERT_OK(fs().retain(cut));
    disk_.fail({.nth = nth, .call = DiskCall::kRead, .fault = DiskFault::kIo, .lasts = FaultLasts::kOnce});
    bool is_written = fs().write(file, 10'001, as_bytes("new")).ok();
    bool is_cut = fs().set_attributes(cut, {.size = 10'001}).ok();
    bool is_renamed = fs().rename(kRootInode, name + "-cut", kRootInode, name + "-moved", RenameMode::kReplace).ok();
    bool is_gone = fs().unlink(kRootInode, name + "-gone").ok();
    bool is_stored = fs().sync(file).ok();
    has_fired = disk_.fired();
    fired += has_fired ? 1 : 0;
    disk_.heal();
    if (!is_stored) is_stored = fs().sync(file).ok();
    ASSERT_TRUE(is_stored);
    auto other = Store::open(path_, {.mode = OpenMode::kReadOnly}, clock_).value();
    std::string expected = old;
    if (is_written) expected.replace(10'001, 3, "new");
    EXPECT_EQ(*read_file(other->fs(), "/" + name), expected) << nth;
    std::string moved = "/" + name + (is_renamed ? "-moved" : "-cut");
    EXPECT_EQ(*read_file(other->fs(), moved), is_cut ? old.substr(0, 10'001) : old) << nth;
    EXPECT_EQ(stat(other->fs(), "/" + name + "-gone").ok(), !is_gone) << nth;
    EXPECT_EQ(*read_file(fs(), "/" + name), expected) << nth;
    fs().release(file);
    fs().release(cut);
  }
  EXPECT_GT(fired, 3) << "reads are no longer made to fail";
}

}  // namespace
}  // namespace warren
