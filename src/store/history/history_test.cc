#include "store/history/history.h"

#include <map>
#include <random>

#include <sys/xattr.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "crypto/digest.h"
#include "db/database.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/store.h"
#include "store/tables/item_rows.h"
#include "store/tables/kv.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

class HistoryTest : public ::testing::Test {
 protected:
  void SetUp() override { open(OpenMode::kCreate); }

  void open(OpenMode mode = OpenMode::kReadWrite, Commits commits = Commits::kEach) {
    auto store = Store::open(file_, {.mode = mode, .durability = Durability::kProcess, .commits = commits}, clock_);
    ASSERT_OK(store);
    store_ = std::move(store).value();
  }
  void reopen() {
    store_.reset();
    open();
  }

  History history() { return History(*store_); }
  FileSystem& fs() { return store_->fs(); }
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs(), path, as_bytes(text))); }
  std::string read(std::string_view path) {
    Result<std::string> text = read_file(fs(), path);
    return text.ok() ? *text : fmt::format("<{}>", text.error().message());
  }
  std::int64_t take(std::string_view name = "c") {
    auto made = history().take(name, "asked");
    EXPECT_OK(made);
    return made.ok() ? made->id : 0;
  }
  std::int64_t ask(Sql sql) {
    auto guard = store_->database().lock();
    auto query = store_->database().prepare(sql);
    EXPECT_OK(query);
    return query->find_integer().value().value_or(-1);
  }
  // As another program would, on its own connection.
  void change_as_stranger(Sql sql) {
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute(sql));
  }
  // Everything that a checkpoint covers, as text.
  std::string dump() {
    std::string all;
    auto add = [&](Sql sql) {
      auto guard = store_->database().lock();
      auto query = store_->database().prepare(sql);
      ASSERT_OK(query);
      Rows rows = query->rows();
      while (rows.next().value()) all += std::string(rows.text(0)) + "\n";
    };
    add("SELECT "
        "'i|'||ino||'|'||mode||'|'||nlink||'|'||uid||'|'||gid||'|'||size||'|'||atime||'|'||mtime||'|'||ctime||'|'"
        "||rdev||'|'||atime_nsec||'|'||mtime_nsec||'|'||ctime_nsec FROM fs_inode ORDER BY ino");
    add("SELECT 'e|'||id||'|'||parent_ino||'|'||name||'|'||ino FROM fs_dentry ORDER BY id");
    add("SELECT 'd|'||ino||'|'||chunk_index||'|'||hex(data) FROM fs_data ORDER BY ino, chunk_index");
    add("SELECT 's|'||ino||'|'||target FROM fs_symlink ORDER BY ino");
    add("SELECT 'x|'||ino||'|'||name||'|'||hex(value) FROM wr_xattr ORDER BY ino, name");
    add("SELECT 'k|'||key||'|'||value||'|'||created_at||'|'||updated_at FROM kv_store ORDER BY key");
    add("SELECT 'y|'||key||'|'||expires_at_ms||'|'||set_at FROM wr_kv_expiry ORDER BY key");
    add("SELECT 'f|'||ino||'|'||expires_at_ms FROM wr_expiry ORDER BY ino");
    return all;
  }
  std::vector<std::string> violated() {
    auto report = check_agent(file_, clock_);
    EXPECT_OK(report);
    std::vector<std::string> rules;
    for (const Violation& one : report->violations) {
      if (rules.empty() || rules.back() != one.rule) rules.push_back(one.rule);
    }
    return rules;
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

// Whoever has decided something about a file by its names has to decide again.
TEST_F(HistoryTest, ARestoreByThisProcessCountsAsAChangeByOthers) {
  write("/a", "1");
  std::int64_t id = take();
  ASSERT_OK(rename(fs(), "/a", "/b"));
  std::uint64_t others = fs().others_mark();
  auto mark = fs().change_mark();
  ASSERT_OK(history().restore(id));
  EXPECT_NE(fs().others_mark(), others);
  EXPECT_NE(fs().change_mark(), mark);
}

TEST_F(HistoryTest, ARestoreMakesEverythingWhatItWas) {
  write("/a/kept", "one");
  write("/a/changed", "before");
  write("/gone", "was here");
  ASSERT_OK(make_symlink(fs(), "target", "/link"));
  ASSERT_OK(set_xattr(fs(), "/a/kept", "user.x", as_bytes("1")));
  ASSERT_OK(store_->kv().set("key", "\"old\""));
  std::string before = dump();
  std::int64_t id = take("first");
  clock_.advance_ns(std::chrono::nanoseconds(std::chrono::seconds(5)).count());

  write("/a/changed", "after, and longer than before");
  ASSERT_OK(unlink(fs(), "/gone"));
  ASSERT_OK(rename(fs(), "/a/kept", "/moved"));
  ASSERT_OK(set_xattr(fs(), "/moved", "user.x", as_bytes("2")));
  write("/new/deep/file", "new");
  ASSERT_OK(store_->kv().set("key", "\"new\""));
  ASSERT_OK(store_->kv().set("other", "1"));
  std::string after = dump();

  auto undo = history().restore(id);
  ASSERT_OK(undo);
  EXPECT_EQ(dump(), before);
  EXPECT_EQ(read("/a/changed"), "before");
  EXPECT_EQ(read("/gone"), "was here");
  EXPECT_FALSE(exists(fs(), "/new").value());
  EXPECT_EQ(store_->kv().get("key").value(), "\"old\"");
  expect_clean();

  ASSERT_OK(history().restore(undo->id));  // and back
  EXPECT_EQ(dump(), after);
  expect_clean();
}

TEST_F(HistoryTest, ACheckpointCostsWhatChanged) {
  std::string large(std::size_t{1} << 20, 'x');
  write("/large", large);
  for (int i = 0; i < 100; ++i) write(fmt::format("/f{}", i), "small");
  std::int64_t first = take();
  EXPECT_EQ(history().measure(first)->bytes, large.size() + 500);
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(write_at(fs(), "/large", 500'000, as_bytes("!")));
  std::int64_t second = take();
  auto size = history().measure(second);
  ASSERT_OK(size);
  EXPECT_EQ(size->nodes, 1u);
  EXPECT_EQ(size->names, 0u);
  EXPECT_EQ(size->bytes, 4096u);  // one chunk
}

TEST_F(HistoryTest, ADamagedOrUnknownCheckpointChangesNothing) {
  write("/a", "1");
  std::int64_t id = take();
  EXPECT_EQ(error_of(history().restore(id + 7)), Code::kNotFound);
  EXPECT_EQ(error_of(history().get("nope")), Code::kNotFound);
  ASSERT_OK(unlink(fs(), "/a"));
  std::string before = dump();
  change_as_stranger("UPDATE wr_past_dentry SET name = '../x' WHERE name = 'a'");
  EXPECT_EQ(error_of(history().restore(id)), Code::kCorrupt);
  EXPECT_EQ(dump(), before);
  EXPECT_EQ(history().list()->size(), 1u);
}

TEST_F(HistoryTest, NamesThatAreNoNamesAreRefused) {
  for (const char* name : {"", "12", "a/b", "a@b", "a\nb", ".", ".."}) {
    EXPECT_EQ(error_of(history().take(name, "asked")), Code::kInvalid) << name;
  }
  EXPECT_EQ(error_of(history().take(std::string(256, 'x'), "asked")), Code::kInvalid);
  EXPECT_TRUE(history().list()->empty());
}

TEST_F(HistoryTest, ANameMeansItsNewestCheckpoint) {
  take("a");
  std::int64_t second = take("a");
  take("b");
  EXPECT_EQ(history().get("a")->id, second);
  EXPECT_EQ(history().get(std::to_string(second))->name, "a");
}

TEST_F(HistoryTest, WR55_ACopyOfAMountThatIsNotWhatItsHashSaysIsReported) {
  {
    Transaction change = store_->begin_write().take_value();
    MountedRows rows(*store_);
    ASSERT_OK(rows.put("/mem/a", {.key = "k", .hash = sha256_hex(as_bytes("v"))}, as_bytes("v"), "t"));
    ASSERT_OK(change.commit());
  }
  take();
  store_.reset();
  expect_clean();
  change_as_stranger("UPDATE wr_mounted SET value = x'00'");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-55"});
  ASSERT_OK(repair_agent(file_, clock_));
  expect_clean();
  change_as_stranger("UPDATE wr_past_mounted SET hash = 'x'");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-55"});
}

TEST_F(HistoryTest, AFileOfAProgramThatKeptNoMountsCanBeUsed) {
  write("/a", "1");
  std::int64_t id = take();
  take("second");
  store_.reset();
  change_as_stranger("DROP TABLE wr_past_mounted");
  open();
  EXPECT_EQ(history().measure(id)->mounted, 0U);
  EXPECT_TRUE(history().list_covered(id)->empty());
  ASSERT_OK(history().remove(2));
  write("/a", "2");
  ASSERT_OK(history().restore(id));
  EXPECT_EQ(read("/a"), "1");
  EXPECT_TRUE(history().is_exact().value());
}

TEST_F(HistoryTest, CopiesOfMountsAreKeptHoweverTheyChange) {
  auto put = [&](std::string_view key, std::string_view value) {
    Transaction change = store_->begin_write().take_value();
    MountedRow row{.key = std::string(key), .hash = sha256_hex(as_bytes(value))};
    ASSERT_OK(MountedRows(*store_).put("/mem/a", row, as_bytes(value), "t"));
    ASSERT_OK(change.commit());
  };
  put("k", "1");
  put("l", "1");
  std::int64_t first = take();
  EXPECT_TRUE(history().is_exact().value());
  put("k", "2");
  std::int64_t second = take();
  EXPECT_TRUE(history().is_exact().value());
  {
    Transaction change = store_->begin_write().take_value();
    ASSERT_OK(MountedRows(*store_).remove("/mem/a", "l"));
    ASSERT_OK(change.commit());
  }
  take();
  EXPECT_TRUE(history().is_exact().value());
  ASSERT_OK(history().restore(first));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_mounted WHERE value = x'31' AND token IS NOT NULL"), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM wr_mounted WHERE value = x'31'"), 2);
  ASSERT_OK(history().restore(second));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_mounted WHERE value = x'32'"), 1);
  EXPECT_TRUE(history().is_exact().value());
  store_.reset();
  change_as_stranger("DELETE FROM wr_mounted");
  open();
  take();
  EXPECT_TRUE(history().is_exact().value());
  expect_clean();
}

TEST_F(HistoryTest, ACheckpointIsNotTakenWithCopiesThatAnotherProcessMade) {
  EXPECT_EQ(error_of(history().take("c", "asked", {{.path = "/mem/a", .digest = "not this"}})), Code::kConflict);
  EXPECT_TRUE(history().list()->empty());
}

TEST_F(HistoryTest, WR54_RowsOfItemsAreRestoredWithTheirFiles) {
  constexpr const char* kFirst = "0190163d-8694-739b-aea5-966c26f8ad91";
  constexpr const char* kSecond = "0190163d-8694-739b-aea5-966c26f8ad92";
  write("/a", "one");
  write("/b", "two");
  Inode a = lstat(fs(), "/a")->inode;
  Inode b = lstat(fs(), "/b")->inode;
  ItemRows rows(*store_);
  auto change = [&](const std::function<void()>& make) {
    Transaction scope = store_->begin_write().value();
    make();
    ASSERT_OK(scope.commit());
  };
  take("none");
  ItemRow first{.node = a, .id = kFirst, .path = "/context/disk/d/a", .source = "/d/a", .title = "A"};
  ItemRow second{.node = b, .id = kSecond, .path = "/context/disk/d/b", .source = "/d/b"};
  change([&] {
    ASSERT_OK(rows.put(first));
    ASSERT_OK(rows.put(second));
  });
  std::int64_t both = take("both");
  change([&] { ASSERT_OK(rows.move_below("/context/disk/d", "/context/disk/e")); });
  EXPECT_EQ(take("moved"), both + 1);
  EXPECT_TRUE(history().is_exact().value());
  change([&] {
    ASSERT_OK(rows.remove(b));
    ASSERT_OK(rows.rekey(a, Inode{99}));
  });
  ASSERT_OK(history().restore(both));
  EXPECT_TRUE(history().is_exact().value());
  EXPECT_EQ(rows.find(a).value(), first);
  EXPECT_EQ(rows.find(b).value(), second);
  EXPECT_EQ(rows.find(Inode{99}).value(), std::nullopt);
  ASSERT_OK(history().restore(both + 1));
  EXPECT_EQ(rows.find_by_path("/context/disk/e/b").value()->id, kSecond);
  ASSERT_OK(history().restore(both - 1));
  EXPECT_EQ(ask("SELECT count(*) FROM wr_item"), 0);
}

TEST_F(HistoryTest, WR54_ARestoreIsExactAlthoughAnotherProgramWrote) {
  write("/a", "1");
  std::string state = dump();
  std::int64_t id = take();
  change_as_stranger("UPDATE fs_data SET data = x'32'");  // nothing else tells
  EXPECT_EQ(read("/a"), "2");
  std::string strange = dump();
  auto undo = history().restore(id);
  ASSERT_OK(undo);
  EXPECT_EQ(dump(), state);
  ASSERT_OK(history().restore(undo->id));
  EXPECT_EQ(dump(), strange);
}

TEST_F(HistoryTest, WR54_ARestoreIsExactAlthoughAnotherProgramWroteWhileItWasClosed) {
  write("/a", "1");
  std::int64_t id = take();
  std::string state = dump();
  store_.reset();
  change_as_stranger("UPDATE fs_data SET data = x'32'");
  open();
  auto undo = history().restore(id);
  ASSERT_OK(undo);
  EXPECT_EQ(dump(), state);
  ASSERT_OK(history().restore(undo->id));
  EXPECT_EQ(read("/a"), "2");
}

// If the rows kept for the last checkpoint are wrong, only a look at everything notices.
TEST_F(HistoryTest, NothingIsComparedThatTheJournalDoesNotListAcrossClosingAndOpening) {
  if (::setxattr(dir_.path().c_str(), "user.test", "", 0, 0) != 0) GTEST_SKIP() << "no extended attributes here";
  write("/a", "1");
  write("/b", "1");
  take();
  {
    Transaction change = store_->begin_write().value();
    ASSERT_OK(store_->database().execute("UPDATE wr_past_data SET data = x'99' WHERE data = x'31'"));
    store_->journal()->note_row();
    ASSERT_OK(change.commit());
  }
  reopen();
  write("/b", "2");
  reopen();
  take();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_past_data WHERE data = x'99' AND until = 9223372036854775807"), 1);  // of /a
  EXPECT_EQ(ask("SELECT count(*) FROM wr_past_data WHERE data = x'32'"), 1);
}

TEST_F(HistoryTest, AnOlderStateIsShownForReading) {
  write("/dir/a", "then");
  ASSERT_OK(store_->kv().set("k", "1"));
  ASSERT_OK(set_xattr(fs(), "/dir/a", "user.x", as_bytes("y")));
  std::int64_t id = take();
  write("/dir/a", "now");
  write("/dir/b", "new");
  ASSERT_OK(store_->kv().set("k", "2"));
  auto past = Store::open(file_, {.mode = OpenMode::kReadOnly, .checkpoint = id}, clock_);
  ASSERT_OK(past);
  EXPECT_TRUE((*past)->is_read_only());
  EXPECT_EQ(read_file((*past)->fs(), "/dir/a").value(), "then");
  EXPECT_EQ(read_dir((*past)->fs(), "/dir").value(), std::vector<std::string>{"a"});
  EXPECT_EQ(get_xattr((*past)->fs(), "/dir/a", "user.x").value(), "y");
  EXPECT_EQ((*past)->kv().get("k").value(), "1");
  EXPECT_EQ(error_of(write_file((*past)->fs(), "/dir/a", as_bytes("x"))), Code::kReadOnly);
  EXPECT_EQ(read("/dir/a"), "now");
  auto none = Store::open(file_, {.mode = OpenMode::kReadOnly, .checkpoint = 99}, clock_);
  EXPECT_EQ(error_of(none), Code::kNotFound);
}

TEST_F(HistoryTest, RemovingOneLeavesTheOthersWhole) {
  std::vector<std::string> states;
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 5; ++i) {
    write("/same", fmt::format("{}", i / 2));
    write(fmt::format("/f{}", i), "x");
    if (i > 1) {
      ASSERT_OK(unlink(fs(), fmt::format("/f{}", i - 2)));
    }
    states.push_back(dump());
    ids.push_back(take());
  }
  ASSERT_OK(history().remove(ids[1]));
  ASSERT_OK(history().remove(ids[3]));
  EXPECT_EQ(error_of(history().remove(ids[3])), Code::kNotFound);
  for (std::size_t i : {0u, 2u, 4u}) {
    ASSERT_OK(history().restore(ids[i]));
    EXPECT_EQ(dump(), states[i]) << i;
  }
  auto removed = history().prune({.keep = 0, .before_us = {}});
  ASSERT_OK(removed);
  EXPECT_TRUE(history().list()->empty());
  EXPECT_EQ(ask("SELECT (SELECT count(*) FROM wr_past_inode) + (SELECT count(*) FROM wr_past_data)"), 0);
  EXPECT_GT(take(), ids[4]);  // an id is never used twice
  EXPECT_EQ(ask("SELECT count(*) FROM wr_past_inode"), ask("SELECT count(*) FROM fs_inode"));
}

TEST_F(HistoryTest, PruningKeepsTheNewestAndTheYoung) {
  for (int i = 0; i < 6; ++i) {
    take(fmt::format("c{}", i));
    clock_.advance_ns(std::chrono::nanoseconds(std::chrono::hours(1)).count());
  }
  auto removed = history().prune({.keep = 2, .before_us = clock_.now_us() - std::int64_t{4} * 3'600'000'000});
  ASSERT_OK(removed);
  ASSERT_EQ(removed->size(), 2u);
  EXPECT_EQ((*removed)[0].name, "c0");
  EXPECT_EQ(history().list()->size(), 4u);
  ASSERT_OK(history().prune({.keep = 1, .before_us = {}}));
  ASSERT_EQ(history().list()->size(), 1u);
  EXPECT_EQ(history().list()->front().name, "c5");
}

TEST_F(HistoryTest, AFileThatIsOpenWhileItVanishesStaysReadableUntilItIsClosed) {
  std::int64_t id = take();
  ASSERT_OK(write_file(fs(), "/new", as_bytes("open"), {.expires_at_ms = clock_.now_us() / 1000 + 100'000}));
  Attributes node = lstat(fs(), "/new").value();
  ASSERT_OK(fs().open(node.inode));
  ASSERT_OK(history().restore(id));
  EXPECT_FALSE(exists(fs(), "/new").value());
  std::string text(4, ' ');
  ASSERT_OK(fs().read(node.inode, 0, as_mutable_bytes(text)));
  EXPECT_EQ(text, "open");
  fs().release(node.inode);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_inode"), 1);
  EXPECT_EQ(ask("SELECT count(*) FROM wr_expiry"), 0);
  expect_clean();
}

TEST_F(HistoryTest, AFileThatIsOpenWhileItComesBackStaysAfterItIsClosed) {
  write("/f", "then");
  std::string state = dump();
  std::int64_t id = take();
  Attributes node = lstat(fs(), "/f").value();
  ASSERT_OK(fs().open(node.inode));
  ASSERT_OK(unlink(fs(), "/f"));
  ASSERT_OK(fs().write(node.inode, 0, as_bytes("lost")));
  ASSERT_OK(history().restore(id));
  EXPECT_EQ(dump(), state);
  fs().release(node.inode);
  EXPECT_EQ(dump(), state);
  reopen();
  EXPECT_EQ(dump(), state);
  expect_clean();
}

TEST_F(HistoryTest, ACheckpointWithinAUnitWithChangesIsRefused) {
  auto unit = fs().begin(UnitAccess::kWrite);
  ASSERT_OK(unit);
  write("/a", "1");
  EXPECT_EQ(error_of(history().take("x", "asked")), Code::kInvalid);
  ASSERT_OK((*unit)->commit());
  EXPECT_EQ(read("/a"), "1");
}

TEST_F(HistoryTest, AMountsBatchIsPartOfACheckpoint) {
  store_.reset();
  open(OpenMode::kReadWrite, Commits::kGrouped);
  write("/a", "1");
  std::int64_t id = take();
  write("/a", "2");
  write("/b", "2");
  ASSERT_OK(history().restore(id));
  EXPECT_EQ(read("/a"), "1");
  EXPECT_FALSE(exists(fs(), "/b").value());
  ASSERT_OK(store_->close());
}

TEST_F(HistoryTest, AQuotaIsCountedAgainAfterARestore) {
  write("/a", "12345");
  std::int64_t id = take();
  store_.reset();
  open();
  ASSERT_OK(store_->usage().set_quota({.bytes = 100, .inodes = {}}));
  write("/b", std::string(90, 'x'));
  ASSERT_OK(history().restore(id));
  write("/c", std::string(90, 'x'));  // would not fit beside /b
  expect_clean();
}

TEST_F(HistoryTest, AnAgentInMemoryHasCheckpointsToo) {
  file_ = ":memory:";
  open();
  write("/a", "1");
  std::int64_t id = take();
  write("/a", "2");
  ASSERT_OK(history().restore(id));
  EXPECT_EQ(read("/a"), "1");
}

TEST_F(HistoryTest, WR50_AVersionThatHoldsForNoCheckpointIsReportedAndRemoved) {
  write("/a", "1");
  take();
  store_.reset();
  change_as_stranger(
      "INSERT INTO wr_past_data (ino, chunk_index, since, until, data) VALUES (9, 0, 3, 2, x'00'), (9, 1, 'x', 4, "
      "x'')");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-50"});
  ASSERT_OK(repair_agent(file_, clock_));
  expect_clean();
  open();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_past_data"), 1);
}

TEST_F(HistoryTest, WR51_VersionsThatOverlapAreReportedAndEnded) {
  write("/a", "1");
  take();
  take();
  store_.reset();
  change_as_stranger(
      "INSERT INTO wr_past_data (ino, chunk_index, since, until, data) SELECT ino, chunk_index, 2, until, data FROM "
      "wr_past_data");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-51"});
  ASSERT_OK(repair_agent(file_, clock_));
  expect_clean();
  open();
  ASSERT_OK(history().restore(1));
  EXPECT_EQ(read("/a"), "1");
}

TEST_F(HistoryTest, WR52_ACheckpointWithAnInvalidNameOrIdIsReportedAndNamedAgain) {
  write("/a", "1");
  take();
  store_.reset();
  change_as_stranger("UPDATE wr_checkpoint SET name = 'a/b'");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-52"});
  change_as_stranger("UPDATE wr_checkpoint SET name = '77'");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-52"});
  change_as_stranger("UPDATE wr_checkpoint SET name = 'a' || char(10) || 'b'");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-52"});
  change_as_stranger("INSERT INTO wr_checkpoint VALUES (-3, 'x', 0, ''), (9000000000000000000, 'y', 0, '')");
  ASSERT_OK(repair_agent(file_, clock_));
  expect_clean();
  open();
  ASSERT_EQ(history().list()->size(), 1u);
  EXPECT_EQ(history().list()->front().name, "repaired-1");
  EXPECT_EQ(take(), 2);
  ASSERT_OK(history().restore(1));
  EXPECT_EQ(read("/a"), "1");
}

TEST_F(HistoryTest, WR53_ACheckpointThatIsNotATreeIsReportedAndLosesOnlyWhatIsBroken) {
  write("/d/a", "1");
  write("/d/b", "2");
  take();
  ASSERT_OK(unlink(fs(), "/d/a"));
  take();
  store_.reset();
  expect_clean();
  change_as_stranger("DELETE FROM wr_past_inode WHERE ino = (SELECT ino FROM wr_past_dentry WHERE name = 'a')");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-53"});
  ASSERT_OK(repair_agent(file_, clock_));
  expect_clean();
  open();
  write("/d/b", "3");
  ASSERT_OK(history().restore(1));
  EXPECT_FALSE(exists(fs(), "/d/a").value());
  EXPECT_EQ(read("/d/b"), "2");
  store_.reset();
  change_as_stranger("DELETE FROM wr_past_inode WHERE ino = 1 AND since <= 1");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-53"});
  ASSERT_OK(repair_agent(file_, clock_));
  expect_clean();
}

TEST_F(HistoryTest, WR53_ANodeThatIsMissingInBetweenIsReported) {
  for (const char* text : {"1", "2", "3"}) {
    write("/a", text);
    take();
    clock_.advance_ns(1'000'000'000);
  }
  store_.reset();
  change_as_stranger(
      "DELETE FROM wr_past_inode WHERE since = 2 AND ino = (SELECT ino FROM wr_past_dentry WHERE name = 'a')");
  EXPECT_EQ(violated(), std::vector<std::string>{"WR-53"});
  ASSERT_OK(repair_agent(file_, clock_));
  expect_clean();
  open();
  ASSERT_OK(history().restore(2));
  EXPECT_FALSE(exists(fs(), "/a").value());
  ASSERT_OK(history().restore(1));
  EXPECT_EQ(read("/a"), "1");
  ASSERT_OK(history().restore(3));
  EXPECT_EQ(read("/a"), "3");
}

TEST_F(HistoryTest, WhatIsNotATreeIsNotPutBack) {
  write("/d/e/f", "1");
  write("/g/h", "1");
  std::int64_t id = take();
  ASSERT_OK(remove(fs(), "/d", {.recursive = Recursive::kYes}));
  ASSERT_OK(set_attributes(fs(), "/g", {.mode = 0700}));
  take();
  std::string now = dump();
  struct Damage {
    Sql damage;
    Sql mend;
  };
  const Damage damages[] = {
      {"UPDATE wr_past_dentry SET parent_ino = (SELECT ino FROM wr_past_dentry WHERE name = 'e') WHERE name = 'd'",
       "UPDATE wr_past_dentry SET parent_ino = 1 WHERE name = 'd'"},  // below itself
      {"INSERT INTO wr_past_dentry (parent_ino, name, since, until, id, ino) SELECT 1, 'twice', since, until, 99, ino "
       "FROM wr_past_dentry WHERE name = 'd'",
       "DELETE FROM wr_past_dentry WHERE name = 'twice'"},
      {"UPDATE wr_past_inode SET mode = 33188 WHERE until = 2 AND ino = (SELECT ino FROM wr_past_dentry WHERE name = "
       "'g')",
       "UPDATE wr_past_inode SET mode = 16877 WHERE until = 2 AND ino = (SELECT ino FROM wr_past_dentry WHERE name = "
       "'g')"},
  };
  for (const auto& [damage, mend] : damages) {
    change_as_stranger(damage);
    EXPECT_EQ(error_of(history().restore(id)), Code::kCorrupt) << damage.text();
    EXPECT_EQ(dump(), now);
    change_as_stranger(mend);
  }
  ASSERT_OK(history().restore(id));
  EXPECT_EQ(read("/d/e/f"), "1");
}

TEST_F(HistoryTest, WhatAUnitChangesAfterItsCheckpointIsInTheNext) {
  write("/a", "1");
  take();
  auto unit = fs().begin(UnitAccess::kWrite);
  ASSERT_OK(unit);
  std::int64_t first = take();
  write("/a", "2");
  ASSERT_OK((*unit)->commit());
  std::int64_t second = take();
  EXPECT_TRUE(history().is_exact().value());
  ASSERT_OK(history().restore(first));
  EXPECT_EQ(read("/a"), "1");
  ASSERT_OK(history().restore(second));
  EXPECT_EQ(read("/a"), "2");
}

TEST_F(HistoryTest, ACommitThatChangesNothingACheckpointCoversKeepsTheJournalComplete) {
  write("/a", "1");
  take();
  {
    Transaction change = store_->begin_write().value();
    ASSERT_OK(store_->database().execute("UPDATE wr_past_data SET data = x'99'"));  // found only by comparing all
    ASSERT_OK(change.commit());
  }
  ASSERT_OK(store_->usage().set_quota({.bytes = 1'000'000, .inodes = {}}));
  write("/b", "2");
  take();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_past_data WHERE data = x'99' AND until = 9223372036854775807"), 1);
}

TEST_F(HistoryTest, WhetherAnythingHasChangedSinceTheLastIsKnown) {
  EXPECT_TRUE(history().has_changed().value());  // there is none
  for (int i = 0; i < 3; ++i) {
    write("/a", fmt::format("{}", i));
    EXPECT_TRUE(history().has_changed().value());
    ASSERT_OK(history().take_automatic("interval", "interval"));
    EXPECT_FALSE(history().has_changed().value());
  }
  ASSERT_OK(history().restore(1));
  EXPECT_FALSE(history().has_changed().value());
  write("/b", "");
  EXPECT_TRUE(history().has_changed().value());
}

TEST_F(HistoryTest, WhatHadNotExpiredAtACheckpointIsShownAndRestored) {
  std::int64_t soon = clock_.now_us() / 1000 + 1000;
  ASSERT_OK(write_file(fs(), "/short", as_bytes("lived"), {.expires_at_ms = soon}));
  ASSERT_OK(store_->kv().set("short", "1", std::chrono::seconds(1)));
  std::int64_t id = take();
  clock_.advance_ns(std::chrono::nanoseconds(std::chrono::seconds(5)).count());
  auto past = Store::open(file_, {.mode = OpenMode::kReadOnly, .checkpoint = id}, clock_);
  ASSERT_OK(past);
  EXPECT_EQ(read_file((*past)->fs(), "/short").value(), "lived");
  EXPECT_EQ((*past)->kv().get("short").value(), "1");
}

TEST_F(HistoryTest, ACheckpointThatIsRemovedMeanwhileStaysReadable) {
  write("/a", "then");
  std::int64_t id = take();
  write("/a", "now");
  take();
  auto past = Store::open(file_, {.mode = OpenMode::kReadOnly, .checkpoint = id}, clock_);
  ASSERT_OK(past);
  ASSERT_OK(history().remove(id));
  EXPECT_EQ(read_file((*past)->fs(), "/a").value(), "then");
}

TEST_F(HistoryTest, AnExpiryThatAnotherProgramCancelledComesBackWithItsPair) {
  ASSERT_OK(store_->kv().set("cancelled", "1", std::chrono::seconds(1)));
  ASSERT_OK(store_->kv().set("other", "1", std::chrono::seconds(1)));
  take();
  change_as_stranger("UPDATE kv_store SET value = '2', updated_at = updated_at + 1 WHERE key = 'cancelled'");
  take();
  clock_.advance_ns(std::chrono::nanoseconds(std::chrono::seconds(5)).count());
  ASSERT_OK(store_->kv().purge_expired());
  take();
  EXPECT_TRUE(history().is_exact().value());
}

TEST_F(HistoryTest, OfThoseTakenByThemselvesTheOldestAreRemoved) {
  write("/a", "0");
  std::int64_t asked = take("asked");
  for (std::size_t i = 0; i < kAutomaticCheckpoints + 5; ++i)
    ASSERT_OK(history().take_automatic("interval", "interval"));
  std::vector<Checkpoint> all = history().list().value();
  EXPECT_EQ(all.size(), kAutomaticCheckpoints + 1);
  EXPECT_EQ(all.front().id, asked);
  ASSERT_OK(store_->usage().set_quota({.bytes = 100'000, .inodes = {}}));
  for (int i = 0; i < 6; ++i) {
    write("/a", std::string(40'000, static_cast<char>('a' + i)));
    ASSERT_OK(history().take_automatic("signal", "signal"));
  }
  EXPECT_LE(ask("SELECT sum(length(data)) FROM wr_past_data WHERE until < 9223372036854775807"), 100'000);
  EXPECT_EQ(history().list()->front().id, asked);
  expect_clean();
}

// Random operations against a model that keeps every checkpoint as a full copy.
TEST_F(HistoryTest, EveryCheckpointIsExactAfterRandomOperations) {
  std::mt19937 random(20261117);
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::map<std::int64_t, std::string> copies;
  auto path = [&] { return fmt::format("/d{}/f{}", pick(3), pick(6)); };
  for (int step = 0; step < 500; ++step) {
    clock_.advance_ns(std::chrono::nanoseconds(std::chrono::milliseconds(700)).count());
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
        write_file(fs(), path(),
                   as_bytes(std::string(static_cast<std::size_t>(pick(20'000)), static_cast<char>('a' + pick(26)))))
            .ignore("");
        break;
      case 3: write_at(fs(), path(), static_cast<std::uint64_t>(pick(30'000)), as_bytes("patch")).ignore(""); break;
      case 4: truncate(fs(), path(), static_cast<std::uint64_t>(pick(30'000))).ignore(""); break;
      case 5: unlink(fs(), path()).ignore(""); break;
      case 6: rename(fs(), path(), path()).ignore(""); break;
      case 7: link(fs(), path(), path()).ok(); break;
      case 8: set_xattr(fs(), path(), "user.a", as_bytes(fmt::format("{}", step))).ignore(""); break;
      case 9: rename(fs(), fmt::format("/d{}", pick(3)), fmt::format("/d{}", pick(3))).ignore(""); break;
      case 10: ASSERT_OK(store_->kv().set(fmt::format("k{}", pick(5)), fmt::format("{}", step))); break;
      case 11: store_->kv().remove(fmt::format("k{}", pick(5))).ok(); break;
      case 12:
        if (pick(4) == 0) remove(fs(), fmt::format("/d{}", pick(3)), {.recursive = Recursive::kYes}).ignore("");
        else make_symlink(fs(), "somewhere", path()).ok();
        break;
      case 13:
        if (pick(3) == 0) change_as_stranger("UPDATE fs_data SET data = randomblob(length(data)) WHERE ino % 3 = 0");
        else if (pick(2) == 0) reopen();
        break;
      case 14: copies[take()] = dump(); break;
      case 15: {
        if (copies.empty()) break;
        auto chosen = std::next(copies.begin(), pick(static_cast<int>(copies.size())));
        if (pick(3) == 0) {
          ASSERT_OK(history().remove(chosen->first));
          copies.erase(chosen);
          break;
        }
        std::string now = dump();
        auto undo = history().restore(chosen->first);
        ASSERT_OK(undo);
        ASSERT_EQ(dump(), chosen->second) << "step " << step << ", checkpoint " << chosen->first;
        copies[undo->id] = now;
        break;
      }
      default: break;
    }
  }
  for (const auto& [id, copy] : copies) {
    ASSERT_OK(history().restore(id));
    ASSERT_EQ(dump(), copy) << "checkpoint " << id;
  }
  EXPECT_TRUE(history().is_exact().value());
  expect_clean();
}

}  // namespace
}  // namespace warren::testing
