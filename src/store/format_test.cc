// The rules of docs/format.md that apply to what the store writes and how it reads.
#include <filesystem>

#include <unistd.h>

#include <gtest/gtest.h>

#include "db/database.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/overlay/overlay_schema.h"
#include "store/record/tool_calls.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

class Format : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = Store::open(file_, {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_);
    ASSERT_OK(store);
    store_ = std::move(store).value();
  }

  std::int64_t ask(Sql sql) {
    auto guard = store_->database().lock();
    auto query = store_->database().prepare(sql);
    EXPECT_OK(query);
    return query->find_integer().value().value_or(-1);
  }

  // As another program would, on its own connection.
  void change(Sql sql) {
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
};

TEST_F(Format, FS1_ANewAgentHasARootThatIsADirectory) {
  EXPECT_EQ(ask("SELECT mode FROM fs_inode WHERE ino = 1"), 040755);
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 1"), 1);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry"), 0);
}

TEST_F(Format, FS9_EveryChunkButTheLastIsComplete) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes(std::string(10'000, 'x'))));
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data WHERE octet_length(data) = 4096"), 2);
  EXPECT_EQ(ask("SELECT octet_length(data) FROM fs_data WHERE chunk_index = 2"), 10'000 - 2 * 4096);
}

TEST_F(Format, FS9_AShortChunkIsPaddedWhenAnotherFollows) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("abc")));
  ASSERT_OK(write_at(store_->fs(), "/f", 9000, as_bytes("xyz")));
  EXPECT_EQ(ask("SELECT octet_length(data) FROM fs_data WHERE chunk_index = 0"), 4096);
  expect_clean();
}

TEST_F(Format, FS22_AShortChunkReadsAsZerosBeyondItsEnd) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes(std::string(9000, 'x'))));
  change("UPDATE fs_data SET data = x'6162' WHERE chunk_index = 0");
  EXPECT_EQ(read_file(store_->fs(), "/f").value(), "ab" + std::string(4094, '\0') + std::string(9000 - 4096, 'x'));
}

TEST_F(Format, FS22_AMissingChunkReadsAsZeros) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes(std::string(9000, 'x'))));
  change("DELETE FROM fs_data WHERE chunk_index = 1");
  EXPECT_EQ(read_file(store_->fs(), "/f").value(),
            std::string(4096, 'x') + std::string(4096, '\0') + std::string(9000 - 8192, 'x'));
  expect_clean();
}

TEST_F(Format, FS22_GrowingByTruncateStoresNothing) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("abc")));
  ASSERT_OK(truncate(store_->fs(), "/f", 1'000'000));
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data"), 1);
  EXPECT_EQ(ask("SELECT octet_length(data) FROM fs_data"), 3);
  EXPECT_EQ(read_file(store_->fs(), "/f").value(), "abc" + std::string(999'997, '\0'));
  expect_clean();
}

TEST_F(Format, FS10_NoChunkOutlivesATruncate) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes(std::string(10'000, 'x'))));
  ASSERT_OK(truncate(store_->fs(), "/f", 4097));
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data"), 2);
  EXPECT_EQ(ask("SELECT octet_length(data) FROM fs_data WHERE chunk_index = 1"), 1);
}

TEST_F(Format, FS12_LinksAreCountedInTheInode) {
  ASSERT_OK(write_file(store_->fs(), "/a", as_bytes("x")));
  ASSERT_OK(link(store_->fs(), "/a", "/b"));
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 2"), 2);
  ASSERT_OK(unlink(store_->fs(), "/a"));
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 2"), 1);
  ASSERT_OK(unlink(store_->fs(), "/b"));
  EXPECT_EQ(ask("SELECT count(*) FROM fs_inode WHERE ino = 2"), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data"), 0);
}

TEST_F(Format, FS19_TheChunkSizeIsChosenOnceAndKept) {
  std::string other = dir_.file("big.db");
  {
    auto made = Store::open(other, {.mode = OpenMode::kCreate, .chunk_bytes = 65'536}, clock_);
    ASSERT_OK(made);
  }
  auto again = Store::open(other, {.chunk_bytes = 4096}, clock_);
  ASSERT_OK(again);
  EXPECT_EQ((*again)->schema().chunk_bytes, 65'536U);
}

TEST_F(Format, AFileThatIsInUseOrWasLeftByAKilledProcessExists) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("x")));
  EXPECT_EQ(error_of(Store::open(file_, {.mode = OpenMode::kCreate}, clock_)), Code::kExists);
  std::string killed = dir_.file("killed.db");
  for (const char* suffix : {"", "-wal"}) std::filesystem::copy_file(file_ + suffix, killed + suffix);
  EXPECT_EQ(error_of(Store::open(killed, {.mode = OpenMode::kCreate}, clock_)), Code::kExists);
  std::filesystem::remove(killed);
  EXPECT_EQ(error_of(Store::open(killed, {.mode = OpenMode::kCreate}, clock_)), Code::kConflict);
}

TEST_F(Format, FS23_ReadingNeverMovesAtime) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("x")));
  Timestamp before = stat(store_->fs(), "/f")->atime;
  clock_.advance_ns(5'000'000'000);
  ASSERT_OK(read_file(store_->fs(), "/f"));
  ASSERT_OK(read_dir(store_->fs(), "/"));
  EXPECT_EQ(stat(store_->fs(), "/f")->atime, before);
}

TEST_F(Format, FS24_ADirectoryStoresOneLinkAndShowsTwoAndItsSubdirectories) {
  ASSERT_OK(make_dirs(store_->fs(), "/d/a"));
  ASSERT_OK(make_dirs(store_->fs(), "/d/b"));
  EXPECT_EQ(ask("SELECT count(*) FROM fs_inode WHERE nlink <> 1"), 0);
  EXPECT_EQ(stat(store_->fs(), "/d")->nlink, 4U);
  change("UPDATE fs_inode SET nlink = 17");
  EXPECT_EQ(stat(store_->fs(), "/d")->nlink, 4U);
}

TEST_F(Format, FS26_NamesAreBytes) {
  std::string name = "\xff\xfe\n\x01 \xc3\x28";
  ASSERT_OK(write_file(store_->fs(), "/" + name, as_bytes("x")));
  EXPECT_EQ(read_file(store_->fs(), "/" + name).value(), "x");
  EXPECT_EQ(read_dir(store_->fs(), "/").value(), std::vector<std::string>{name});
  EXPECT_EQ(ask("SELECT typeof(name) = 'text' FROM fs_dentry"), 1);
  ASSERT_OK(write_file(store_->fs(), "/" + std::string(255, 'n'), as_bytes("x")));
  EXPECT_EQ(error_of(write_file(store_->fs(), "/" + std::string(256, 'n'), as_bytes("x"))), Code::kNameTooLong);
  expect_clean();
}

TEST_F(Format, OV4_AnOverlayStoresItsBasePath) {
  ASSERT_OK(make_overlay(*store_, "/base"));
  EXPECT_EQ(ask("SELECT value = '/base' FROM fs_overlay_config WHERE key = 'base_path'"), 1);
  EXPECT_EQ(find_overlay_base(*store_).value(), "/base");
  expect_clean();
}

TEST_F(Format, WR3_TheFileHasNoTriggerAndNoVirtualTable) {
  ASSERT_OK(make_overlay(*store_, "/base"));
  EXPECT_EQ(ask("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' OR sql LIKE 'CREATE VIRTUAL%'"), 0);
}

TEST_F(Format, WR4_AFileByANewerWarrenIsRefused) {
  store_.reset();
  change("UPDATE wr_meta SET value = 2 WHERE key = 'format'");
  EXPECT_EQ(error_of(Store::open(file_, {}, clock_)), Code::kUnsupported);
}

TEST_F(Format, WR5_EachTransactionThatChangesSomethingLeavesOneRow) {
  std::int64_t before = ask("SELECT count(*) FROM wr_journal");
  ASSERT_OK(write_file(store_->fs(), "/a/b/c", as_bytes("x")));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_journal"), before + 1);
  ASSERT_OK(read_file(store_->fs(), "/a/b/c"));
  EXPECT_EQ(error_of(unlink(store_->fs(), "/none")), Code::kNotFound);
  EXPECT_EQ(ask("SELECT count(*) FROM wr_journal"), before + 1);
  {
    auto whole = store_->begin_write();
    ASSERT_OK(whole);
    ASSERT_OK(store_->kv().set("k", "1"));
    ASSERT_OK(unlink(store_->fs(), "/a/b/c"));
    ASSERT_OK(whole->commit());
  }
  EXPECT_EQ(ask("SELECT count(*) FROM wr_journal"), before + 2);
}

TEST_F(Format, WR6_AnAttributeIsRemovedWithItsNode) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("x")));
  ASSERT_OK(set_xattr(store_->fs(), "/f", "user.a", as_bytes("v")));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_xattr"), 1);
  ASSERT_OK(unlink(store_->fs(), "/f"));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_xattr"), 0);
}

TEST_F(Format, WR7_AnOpenUnlinkedFileIsAnOrphanUntilItIsReleased) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("x")));
  Inode node = stat(store_->fs(), "/f")->inode;
  ASSERT_OK(store_->fs().open(node));
  ASSERT_OK(unlink(store_->fs(), "/f"));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_orphan"), 1);
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 2"), 0);
  expect_clean();
  store_->fs().release(node);
  EXPECT_EQ(ask("SELECT count(*) FROM wr_orphan"), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data"), 0);
}

TEST_F(Format, WR8_AnExpiryIsRemovedWithItsKey) {
  ASSERT_OK(store_->kv().set("k", "1", std::chrono::milliseconds(5000)));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_kv_expiry"), 1);
  ASSERT_OK(store_->kv().remove("k"));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_kv_expiry"), 0);
}

TEST_F(Format, WR10_AQuotaAndUsedSpaceAreWholeNumbers) {
  {
    auto whole = store_->begin_write();
    ASSERT_OK(whole);
    ASSERT_OK(store_->usage().set_quota({.bytes = 100, .inodes = 10}));
    ASSERT_OK(whole->commit());
  }
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("12345")));
  EXPECT_EQ(ask("SELECT value FROM wr_meta WHERE key = 'used_bytes'"), 5);
  EXPECT_EQ(ask("SELECT value FROM wr_meta WHERE key = 'used_inodes'"), 2);
  EXPECT_EQ(ask("SELECT value FROM wr_meta WHERE key = 'quota_bytes'"), 100);
  expect_clean();
}

TEST_F(Format, ACopyOfTheFileAfterACleanCloseIsASnapshot) {
  ASSERT_OK(write_file(store_->fs(), "/f", as_bytes("x")));
  store_.reset();
  EXPECT_NE(::access((file_ + "-wal").c_str(), F_OK), 0);
  EXPECT_NE(::access((file_ + "-shm").c_str(), F_OK), 0);
  expect_clean();
}

}  // namespace
}  // namespace warren::testing
