// An overlay that programs use while an apply runs; how it follows the host is tested in tests/changes/meanwhile.py.
#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "store/overlay/apply_log.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "store/query.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

// A process that has the agent open.
struct UserOfOverlay {
  UserOfOverlay(const std::string& file, const std::string& base_dir, OpenMode mode, Clock& clock) {
    store = Store::open(file, {.mode = mode, .durability = Durability::kProcess}, clock).value();
    if (mode == OpenMode::kCreate) {
      EXPECT_OK(make_overlay(*store, base_dir));
    }
    rows = OverlayRows::open(*store).value();
    base = HostFs::open(base_dir).value();
    overlay = OverlayFs::open(*rows, *base).value();
  }

  std::unique_ptr<Store> store;
  std::unique_ptr<OverlayRows> rows;
  std::unique_ptr<HostFs> base;
  std::unique_ptr<OverlayFs> overlay;
};

class OverlayInUseTest : public ::testing::Test {
 protected:
  OverlayInUseTest() {
    EXPECT_EQ(::mkdir(base_.c_str(), 0755), 0);
    put("/a.txt", "from the base\n");
    put("/d/g", "g");
    user_ = std::make_unique<UserOfOverlay>(dir_.file("a.db"), base_, OpenMode::kCreate, clock_);
  }

  std::string host(std::string_view path) { return base_ + std::string(path); }
  void put(std::string_view path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(host(path)).parent_path());
    std::ofstream(host(path), std::ios::binary) << text;
  }
  FileSystem& fs() { return *user_->overlay; }
  std::string read(std::string_view path) { return read_file(fs(), path).value(); }
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs(), path, as_bytes(text))); }
  std::int64_t count(const std::string& sql) {
    auto guard = user_->store->database().lock();
    Statement query = user_->store->database().prepare(UserSql{sql}).value();
    return query.find_integer()->value();
  }
  std::unique_ptr<UserOfOverlay> open_other() {
    return std::make_unique<UserOfOverlay>(dir_.file("a.db"), base_, OpenMode::kReadWrite, clock_);
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string base_ = dir_.file("base");
  std::unique_ptr<UserOfOverlay> user_;
};

TEST_F(OverlayInUseTest, SettingTheModeAndOwnerThatAFileHasCopiesNothing) {
  Attributes file = lstat(fs(), "/a.txt").value();
  AttributeChanges same;
  same.mode = file.mode & 07777U;
  same.uid = file.owner.uid;
  same.gid = file.owner.gid;
  Attributes after = fs().set_attributes(file.inode, same).value();
  EXPECT_EQ(after, file);
  EXPECT_EQ(count("SELECT count(*) FROM fs_dentry"), 0);
  AttributeChanges other;
  other.mode = (file.mode & 07777U) ^ 0100U;
  ASSERT_OK(fs().set_attributes(file.inode, other));
  EXPECT_EQ(count("SELECT count(*) FROM fs_dentry"), 1);
}

TEST_F(OverlayInUseTest, WhatIsRemovedWhileAnApplyRunsDoesNotComeBack) {
  ASSERT_OK(make_dir(fs(), "/d/new"));
  ASSERT_OK(make_dir(fs(), "/d/new/sub"));
  for (const char* path : {"/d/new/gone", "/d/new/moved", "/d/new/sub/f", "/f", "/again"}) write(path, "agent");
  auto applier = open_other();
  ASSERT_OK(put_apply_mark(*applier->store));
  for (const char* path : {"/d/new/gone", "/d/new/sub/f", "/f", "/again"}) ASSERT_OK(unlink(fs(), path));
  ASSERT_OK(remove_dir(fs(), "/d/new/sub"));
  ASSERT_OK(make_dir(fs(), "/d/new/sub"));
  ASSERT_OK(rename(fs(), "/d/new/moved", "/d/moved"));
  write("/again", "agent 2");
  for (const char* path : {"/d/new/gone", "/d/new/moved", "/d/new/sub/f", "/f", "/again"}) put(path, "agent");
  ASSERT_OK(put_apply_intent(*applier->store, as_bytes("record")));
  EXPECT_EQ(read_dir(fs(), "/d/new").value(), std::vector<std::string>{"sub"});
  EXPECT_EQ(read_dir(fs(), "/d/new/sub").value(), std::vector<std::string>{});
  for (const char* path : {"/d/new/gone", "/d/new/moved", "/d/new/sub/f", "/f"}) {
    EXPECT_EQ(error_of(lstat(fs(), path)), Code::kNotFound) << path;
  }
  EXPECT_EQ(read("/again"), "agent 2");
  ASSERT_OK(rename(fs(), "/d/new", "/d/other"));
  EXPECT_EQ(error_of(lstat(fs(), "/d/other/gone")), Code::kNotFound);
  EXPECT_EQ(error_of(lstat(fs(), "/d/new")), Code::kNotFound);
  // The apply leaves whiteouts for what it has written; here is none that does.
  ASSERT_OK(remove_apply_intent(*applier->store));
  EXPECT_EQ(read("/f"), "agent");
}

TEST_F(OverlayInUseTest, NamesRemovedWhileAnApplyRunsMoveWithExchangedDirectories) {
  put("/e/g", "g of e");
  write("/d/gone", "agent");
  auto applier = open_other();
  ASSERT_OK(put_apply_mark(*applier->store));
  ASSERT_OK(unlink(fs(), "/d/gone"));
  ASSERT_OK(rename(fs(), "/d", "/e", RenameMode::kExchange));
  for (const char* path : {"/d/gone", "/e/gone"}) put(path, "base");
  ASSERT_OK(put_apply_intent(*applier->store, as_bytes("record")));
  EXPECT_EQ(error_of(lstat(fs(), "/e/gone")), Code::kNotFound);  // what was /d
  EXPECT_EQ(read("/d/gone"), "base");
}

TEST_F(OverlayInUseTest, AnExchangedFileIsNoLongerWhatWasAppliedToItsOldPlace) {
  put("/one", "1");
  put("/two", "22");
  for (const char* path : {"/one", "/two"}) {
    write("/draft", "agent");
    ASSERT_OK(rename(fs(), "/draft", path));
  }
  auto applier = open_other();
  {
    auto unit = applier->rows->begin(UnitAccess::kWrite).value();
    Inode node = lstat(applier->rows->fs(), "/one")->inode;
    Attributes applied = lstat(*applier->base, "/one").value();
    ASSERT_OK(applier->rows->put_origin({.upper = node, .base_path = "", .seen = applied, .hidden_names = 0}));
    ASSERT_OK(unit->commit());
  }
  ASSERT_OK(rename(fs(), "/one", "/two", RenameMode::kExchange));
  ASSERT_OK(unlink(fs(), "/two"));
  auto unit = user_->rows->begin(UnitAccess::kRead).value();
  std::optional<Attributes> seen = user_->rows->find_removed("/two").value();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->size, 2U);
}

TEST_F(OverlayInUseTest, AMovedDirectoryThatIsRemovedLeavesNoWhiteoutsBelow) {
  put("/s/x", "x");
  put("/t/x", "x of t");
  ASSERT_OK(unlink(fs(), "/t/x"));
  ASSERT_OK(rename(fs(), "/s", "/t"));
  ASSERT_OK(unlink(fs(), "/t/x"));
  ASSERT_OK(remove_dir(fs(), "/t"));
  EXPECT_EQ(count("SELECT count(*) FROM fs_whiteout"), 2) << "of /s and /t";
  // One that is where the base has it keeps them: they say what the agent saw.
  ASSERT_OK(unlink(fs(), "/d/g"));
  ASSERT_OK(remove_dir(fs(), "/d"));
  EXPECT_EQ(count("SELECT count(*) FROM fs_whiteout"), 4);
}

}  // namespace
}  // namespace warren
