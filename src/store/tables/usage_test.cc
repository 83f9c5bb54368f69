#include "store/tables/usage.h"

#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::FakeClock;
using testing::TempDir;

class UsageTest : public ::testing::Test {
 protected:
  void SetUp() override { store_ = open(OpenMode::kCreate); }

  std::unique_ptr<Store> open(OpenMode mode) {
    return Store::open(directory_.file("a.db"), {.mode = mode, .durability = Durability::kProcess}, clock_).value();
  }

  static Status charge(Store& store, std::int64_t bytes, std::int64_t inodes) {
    Transaction change = WARREN_TRY(store.begin_write());
    WARREN_TRY(store.usage().charge(bytes, inodes));
    return change.commit();
  }
  Status charge(std::int64_t bytes, std::int64_t inodes) { return charge(*store_, bytes, inodes); }

  Status write(std::string_view path, std::size_t bytes) {
    return write_file(store_->fs(), path, as_bytes(std::string(bytes, 'x')));
  }

  std::optional<std::int64_t> meta(std::string_view key) {
    auto guard = store_->database().lock();
    Statement find = store_->database().prepare("SELECT value FROM wr_meta WHERE key = ?").value();
    return find.bind(1, key).find_integer().value();
  }

  TempDir directory_;
  FakeClock clock_;
  std::unique_ptr<Store> store_;
};

TEST_F(UsageTest, WithoutAQuotaNothingIsCounted) {
  EXPECT_EQ(store_->usage().quota().value(), Quota{});
  ASSERT_OK(write("/f", 100'000));
  EXPECT_EQ(meta("used_bytes"), std::nullopt);
  EXPECT_OK(charge(INT64_MAX, INT64_MAX));
}

TEST_F(UsageTest, MeasureCountsContentAndEveryNode) {
  ASSERT_OK(write("/d/f", 1000));
  ASSERT_OK(make_symlink(store_->fs(), "target", "/l"));
  EXPECT_EQ(store_->usage().measure().value(), (UsedSpace{.bytes = 1006, .inodes = 4}));
}

TEST_F(UsageTest, AQuotaStartsFromCurrentUse) {
  ASSERT_OK(write("/f", 1000));
  ASSERT_OK(store_->usage().set_quota({.bytes = 1500, .inodes = 10}));
  EXPECT_EQ(store_->usage().quota().value(), (Quota{.bytes = 1500, .inodes = 10}));
  EXPECT_EQ(meta("used_bytes"), 1000);
  EXPECT_EQ(meta("used_inodes"), 2);
  EXPECT_EQ(error_of(charge(501, 0)), Code::kNoSpace);
  EXPECT_OK(charge(500, 8));
  EXPECT_EQ(meta("used_bytes"), 1500);
  EXPECT_EQ(meta("used_inodes"), 10);
}

TEST_F(UsageTest, ARefusalSaysHowMuchIsMissingAndCountsNothing) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 1048576, .inodes = 5}));
  ASSERT_OK(charge(1048576, 0));
  Status refused = charge(4096, 0);
  EXPECT_EQ(error_of(refused), Code::kNoSpace);
  EXPECT_EQ(refused.error().message(), "quota: 1.0 MiB of 1.0 MiB used, 4.0 KiB more needed");
  EXPECT_NE(refused.error().hint().find("`warren quota`"), std::string::npos);
  EXPECT_EQ(error_of(charge(-1048576, 5)), Code::kNoSpace) << "inodes are used up, whatever the bytes";
  EXPECT_EQ(error_of(charge(INT64_MAX, 0)), Code::kNoSpace);
  EXPECT_OK(charge(0, 4));
  EXPECT_EQ(meta("used_bytes"), 1048576);
  EXPECT_EQ(meta("used_inodes"), 5);
}

TEST_F(UsageTest, GivingBackAlwaysSucceedsEvenBeyondTheQuota) {
  ASSERT_OK(write("/f", 1000));
  ASSERT_OK(store_->usage().set_quota({.bytes = 10, .inodes = 1}));
  EXPECT_EQ(error_of(charge(1, 0)), Code::kNoSpace);
  EXPECT_OK(charge(-100, -1));
  EXPECT_EQ(meta("used_bytes"), 900);
  EXPECT_OK(charge(-5000, -5000));
  EXPECT_EQ(meta("used_bytes"), 0);
  EXPECT_EQ(meta("used_inodes"), 0);
}

TEST_F(UsageTest, RemovingTheQuotaRemovesTheCount) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 10, .inodes = 10}));
  ASSERT_OK(store_->usage().set_quota({}));
  EXPECT_OK(charge(1000, 1000));
  for (const char* key : {"quota_bytes", "quota_inodes", "used_bytes", "used_inodes"}) {
    EXPECT_EQ(meta(key), std::nullopt) << key;
  }
}

TEST_F(UsageTest, AQuotaMayLimitOnlyOneOfTheTwo) {
  ASSERT_OK(store_->usage().set_quota({.bytes = std::nullopt, .inodes = 2}));
  EXPECT_OK(charge(INT64_MAX, 1));
  EXPECT_EQ(error_of(charge(0, 1)), Code::kNoSpace);
}

TEST_F(UsageTest, AQuotaThatCannotBeStoredIsRefused) {
  EXPECT_EQ(error_of(store_->usage().set_quota({.bytes = UINT64_MAX, .inodes = {}})), Code::kInvalid);
}

TEST_F(UsageTest, RolledBackChangesAreNotCounted) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = 10}));
  {
    Transaction dropped = store_->begin_write().value();
    ASSERT_OK(store_->usage().charge(1000, 0));
    ASSERT_OK(store_->database().execute("INSERT INTO wr_meta VALUES ('test', 1)"));
  }
  EXPECT_OK(charge(1000, 0));
}

// A charge precedes its change; if the change fails immediately, no row was changed and no rollback is reported.
TEST_F(UsageTest, AChargeWhoseTransactionNeverChangedARowIsNotCounted) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = 10}));
  {
    Transaction dropped = store_->begin_write().value();
    ASSERT_OK(store_->usage().charge(1000, 0));
  }
  {
    Transaction unrelated = store_->begin_write().value();
    ASSERT_OK(store_->database().execute("INSERT INTO wr_meta VALUES ('test', 1)"));
    ASSERT_OK(unrelated.commit());
  }
  EXPECT_EQ(meta("used_bytes"), 0);
  EXPECT_OK(charge(1000, 0));
  EXPECT_EQ(meta("used_bytes"), 1000);
}

TEST_F(UsageTest, ARolledBackQuotaIsForgotten) {
  {
    Transaction dropped = store_->begin_write().value();
    ASSERT_OK(store_->usage().set_quota({.bytes = 1, .inodes = 1}));
    EXPECT_EQ(error_of(store_->usage().charge(100, 0)), Code::kNoSpace) << "it binds at once";
  }
  EXPECT_OK(charge(100, 100));
  EXPECT_EQ(store_->usage().quota().value(), Quota{});
}

TEST_F(UsageTest, TwoStoresShareOneCount) {
  std::unique_ptr<Store> other = open(OpenMode::kReadWrite);
  ASSERT_OK(charge(*other, 1, 0));
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = 10}));
  EXPECT_EQ(other->usage().quota().value().bytes, 1000U);
  EXPECT_OK(charge(*other, 600, 0));
  EXPECT_EQ(error_of(charge(600, 0)), Code::kNoSpace);
  EXPECT_OK(charge(400, 0));
  EXPECT_EQ(error_of(charge(*other, 1, 0)), Code::kNoSpace);
  EXPECT_OK(charge(*other, -1000, 0));
  EXPECT_OK(charge(1000, 0));
}

TEST_F(UsageTest, ChangesByAnotherProgramAreCountedAtTheNextOpen) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 5000, .inodes = 10}));
  store_.reset();
  {
    auto database = Database::open(directory_.file("a.db"), {}).value();
    ASSERT_OK(database->execute(
        "INSERT INTO fs_inode (ino, mode, nlink, size, atime, mtime, ctime) VALUES (50, 33188, 1, 4000, 0, 0, 0);"
        "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('theirs', 1, 50)"));
  }
  store_ = open(OpenMode::kReadWrite);
  EXPECT_EQ(meta("used_bytes"), 4000);
  EXPECT_EQ(meta("used_inodes"), 2);
  EXPECT_EQ(error_of(charge(1001, 0)), Code::kNoSpace);
}

TEST_F(UsageTest, AReadOnlyStoreKnowsTheQuotaAndCannotSetIt) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 5, .inodes = {}}));
  std::unique_ptr<Store> reader = open(OpenMode::kReadOnly);
  EXPECT_EQ(reader->usage().quota().value().bytes, 5U);
  EXPECT_EQ(error_of(reader->usage().set_quota({})), Code::kReadOnly);
}

TEST_F(UsageTest, AnInvalidCountIsCorrupt) {
  ASSERT_OK(store_->database().execute("INSERT INTO wr_meta VALUES ('quota_bytes', 'lots')"));
  EXPECT_EQ(error_of(store_->usage().quota()), Code::kCorrupt);
  store_.reset();
  auto opened = Store::open(directory_.file("a.db"), {}, clock_);
  EXPECT_EQ(error_of(opened), Code::kCorrupt);
}

TEST_F(UsageTest, HugeSparseFilesDoNotOverflowTheCount) {
  ASSERT_OK(store_->database().execute(
      "INSERT INTO fs_inode (mode, size, atime, mtime, ctime) VALUES (33188, 4611686018427387904, 0, 0, 0), "
      "(33188, 4611686018427387904, 0, 0, 0), (33188, 4611686018427387904, 0, 0, 0), (33188, -5, 0, 0, 0)"));
  EXPECT_EQ(store_->usage().measure().value().bytes, static_cast<std::uint64_t>(INT64_MAX));
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = {}}));
  EXPECT_EQ(error_of(charge(1, 0)), Code::kNoSpace);
}

TEST_F(UsageTest, TheFilesystemStopsAtTheQuotaAndContinuesWhenThereIsRoomAgain) {
  ASSERT_OK(store_->usage().set_quota({.bytes = 10'000, .inodes = 3}));
  ASSERT_OK(write("/a", 6000));
  EXPECT_EQ(error_of(write("/b", 6000)), Code::kNoSpace);
  ASSERT_OK(write("/b", 4000));
  EXPECT_EQ(error_of(write("/c", 0)), Code::kNoSpace) << "root, a and b";
  ASSERT_OK(unlink(store_->fs(), "/a"));
  EXPECT_OK(write("/c", 6000));
  UsedSpace used = store_->usage().measure().value();
  EXPECT_EQ(used, (UsedSpace{.bytes = 10'000, .inodes = 3}));
  EXPECT_EQ(meta("used_bytes"), 10'000);
  EXPECT_EQ(meta("used_inodes"), 3);
}

}  // namespace
}  // namespace warren
