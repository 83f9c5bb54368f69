#include "store/files/sqlite_fs.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "fs/file.h"
#include "fs/path_ops.h"
#include "store/query.h"
#include "store/store.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

// Two stores on one file act like two processes: each has its own connection and caches.
class SqliteFsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open(OpenMode mode) {
    return Store::open(dir_.file("a.db"), {.mode = mode, .durability = Durability::kProcess}, clock_).value();
  }
  void write(Store& store, std::string_view path, std::string_view text) {
    ASSERT_OK(write_file(store.fs(), path, as_bytes(text)));
  }

  static FileSystemStats stats(Store& store) { return store.fs().stats(kRootInode).value(); }
  std::int64_t count_orphans() {
    auto view = Transaction::begin(two_->database(), Access::kRead).value();
    return two_->database().prepare("SELECT count(*) FROM wr_orphan").value().find_integer().value().value();
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<Store> one_ = open(OpenMode::kCreate);
  std::unique_ptr<Store> two_ = open(OpenMode::kReadWrite);
};

TEST_F(SqliteFsTest, ChangesByAnotherStoreAreSeenAtOnce) {
  write(*one_, "/d/f", "old");
  EXPECT_EQ(stat(two_->fs(), "/d/f")->size, 3U);
  write(*one_, "/d/f", "longer");
  EXPECT_EQ(stat(two_->fs(), "/d/f")->size, 6U);
  ASSERT_OK(set_mode(one_->fs(), "/d/f", 0600));
  EXPECT_EQ(stat(two_->fs(), "/d/f")->mode & 07777, 0600U);
  ASSERT_OK(rename(one_->fs(), "/d/f", "/d/g"));
  EXPECT_EQ(error_of(stat(two_->fs(), "/d/f")), Code::kNotFound);
  EXPECT_EQ(*read_file(two_->fs(), "/d/g"), "longer");
  ASSERT_OK(unlink(one_->fs(), "/d/g"));
  ASSERT_OK(make_dir(one_->fs(), "/d/g"));
  EXPECT_TRUE(stat(two_->fs(), "/d/g")->is_directory());
  EXPECT_EQ(stat(two_->fs(), "/d")->nlink, 3U);
}

TEST_F(SqliteFsTest, TheNamesOfANodeAreRightHoweverOftenTheyAreAskedFor) {
  write(*one_, "/d/f", "x");
  ASSERT_OK(link(one_->fs(), "/d/f", "/g"));
  Inode file = stat(one_->fs(), "/d/f")->inode;
  auto names = [&](Store& store) {
    std::vector<std::string> found;
    for (const EntryName& name : store.fs().list_names_of(file).value()) found.push_back(name.name);
    std::sort(found.begin(), found.end());
    return found;
  };
  auto twice = [&](const std::vector<std::string>& expected) {
    for (Store* store : {one_.get(), two_.get()}) {
      for (int call = 0; call < 3; ++call) EXPECT_EQ(names(*store), expected);
    }
  };
  twice({"f", "g"});
  ASSERT_OK(rename(one_->fs(), "/g", "/h"));
  twice({"f", "h"});
  ASSERT_OK(link(two_->fs(), "/h", "/i"));
  twice({"f", "h", "i"});
  ASSERT_OK(unlink(one_->fs(), "/d/f"));
  twice({"h", "i"});
  ASSERT_OK(unlink(two_->fs(), "/h"));
  twice({"i"});
  ASSERT_OK(unlink(two_->fs(), "/i"));
  twice({});
}

TEST_F(SqliteFsTest, NamesAreFoundWhereAnotherProgramHasStoredAWrongNumberOfLinks) {
  write(*one_, "/f", "x");
  ASSERT_OK(link(one_->fs(), "/f", "/g"));
  Inode file = stat(one_->fs(), "/f")->inode;
  {
    auto change = Transaction::begin(two_->database(), Access::kWrite).value();
    ASSERT_OK(two_->database().prepare("UPDATE fs_inode SET nlink = 1").value().run());
    ASSERT_OK(change.commit());
  }
  for (int call = 0; call < 3; ++call) EXPECT_EQ(one_->fs().list_names_of(file)->size(), 2U);
}

TEST_F(SqliteFsTest, ANameThatWasTakenBackIsNotListed) {
  write(*one_, "/f", "x");
  ASSERT_OK(link(one_->fs(), "/f", "/g"));
  Inode file = stat(one_->fs(), "/f")->inode;
  {
    auto unit = one_->fs().begin(UnitAccess::kWrite).value();
    ASSERT_OK(link(one_->fs(), "/f", "/h"));
    for (int call = 0; call < 3; ++call) EXPECT_EQ(one_->fs().list_names_of(file)->size(), 3U);
  }
  for (int call = 0; call < 3; ++call) EXPECT_EQ(one_->fs().list_names_of(file)->size(), 2U);
}

TEST_F(SqliteFsTest, TheChangeMarkMovesWithEveryChangeWhoeverMakesIt) {
  write(*one_, "/f", "x");
  auto mark = [&] { return one_->fs().change_mark(); };
  std::optional<std::uint64_t> before = mark();
  ASSERT_TRUE(before);
  EXPECT_EQ(*read_file(one_->fs(), "/f"), "x");
  EXPECT_EQ(*read_file(two_->fs(), "/f"), "x");
  EXPECT_EQ(mark(), before);
  write(*one_, "/f", "y");
  std::optional<std::uint64_t> after = mark();
  EXPECT_TRUE(after && after != before);
  write(*two_, "/f", "z");
  EXPECT_TRUE(mark() && mark() != after);
  {
    auto unit = one_->fs().begin(UnitAccess::kWrite).value();
    EXPECT_FALSE(mark()) << "what a unit changes is not committed yet";
  }
  EXPECT_TRUE(mark());
  std::int64_t now_ms = clock_.now_us() / 1000;
  ASSERT_OK(write_file(two_->fs(), "/short", as_bytes("x"), {.expires_at_ms = now_ms + 1000}));
  EXPECT_TRUE(*exists(one_->fs(), "/short"));
  EXPECT_TRUE(mark());
  clock_.advance_ns(1'000'000'000);
  EXPECT_FALSE(mark()) << "a file has expired";
  EXPECT_FALSE(*exists(one_->fs(), "/short"));
}

// Such a row is not ours: a stranger may have written it.
TEST_F(SqliteFsTest, AFileWithANameIsNotCollectedWhateverIsListed) {
  std::string content(3 << 20, 'c');
  write(*one_, "/kept", content);
  Inode node = stat(one_->fs(), "/kept")->inode;
  auto forge = [&] {
    auto database = Database::open(dir_.file("a.db"), {.durability = Durability::kProcess}).value();
    Statement put = database->prepare("INSERT INTO wr_orphan VALUES (?, 'another boot', 1, 1, 1)").value();
    ASSERT_OK(put.bind(1, node.value).run());
  };
  for (Commits commits : {Commits::kEach, Commits::kGrouped}) {
    forge();
    auto store = Store::open(dir_.file("a.db"), {.mode = OpenMode::kReadWrite, .commits = commits}, clock_).value();
    EXPECT_TRUE(*read_file(store->fs(), "/kept") == content);
    EXPECT_EQ(count_orphans(), 0);
    if (commits == Commits::kEach) continue;
    forge();  // while it is open
    ASSERT_OK(store->fs().leave());
    ASSERT_OK(store->close());
    EXPECT_EQ(count_orphans(), 0);
  }
  EXPECT_TRUE(*read_file(one_->fs(), "/kept") == content);
}

TEST_F(SqliteFsTest, BothStoresChangingOneTreeInTurnAgree) {
  for (int i = 0; i < 50; ++i) {
    Store& writer = i % 2 == 0 ? *one_ : *two_;
    Store& reader = i % 2 == 0 ? *two_ : *one_;
    write(writer, "/counter", std::to_string(i));
    EXPECT_EQ(*read_file(reader.fs(), "/counter"), std::to_string(i));
    ASSERT_OK(make_dirs(writer.fs(), "/d" + std::to_string(i)));
    EXPECT_EQ(stat(reader.fs(), "/")->nlink, 3U + static_cast<unsigned>(i));
  }
}

TEST_F(SqliteFsTest, NothingOfARolledBackUnitIsCached) {
  write(*one_, "/f", "old");
  {
    auto unit = one_->fs().begin(UnitAccess::kWrite).value();
    write(*one_, "/f", "new and longer");
    write(*one_, "/d/g", "x");
    ASSERT_OK(unlink(one_->fs(), "/f"));
  }
  EXPECT_EQ(*read_file(one_->fs(), "/f"), "old");
  EXPECT_EQ(error_of(stat(one_->fs(), "/d")), Code::kNotFound);
  EXPECT_EQ(stat(one_->fs(), "/")->nlink, 2U);
}

TEST_F(SqliteFsTest, AnOpenFileWhoseUnlinkWasRolledBackStillHasItsName) {
  write(*one_, "/f", "x");
  auto file = File::open(one_->fs(), "/f").value();
  {
    auto unit = one_->fs().begin(UnitAccess::kWrite).value();
    ASSERT_OK(unlink(one_->fs(), "/f"));
  }
  EXPECT_OK(link(one_->fs(), "/f", "/g"));
  ASSERT_OK(file->close());
  EXPECT_EQ(*read_file(one_->fs(), "/f"), "x");
}

TEST_F(SqliteFsTest, AnOpenFileThatAnotherStoreRemovedStaysUntilItIsClosed) {
  write(*one_, "/f", "x");
  write(*one_, "/g", "new");
  auto file = File::open(one_->fs(), "/f", {.access = FileAccess::kReadWrite}).value();
  ASSERT_OK(rename(two_->fs(), "/g", "/f"));
  EXPECT_EQ(*read_file(one_->fs(), "/f"), "new");
  std::string out(3, ' ');
  ASSERT_OK(file->write_at(1, as_bytes("yz")));
  EXPECT_EQ(file->read_at(0, as_mutable_bytes(out)).value(), 3U);
  EXPECT_EQ(out, "xyz");
  EXPECT_EQ(file->attributes()->nlink, 0U);
  EXPECT_EQ(count_orphans(), 1);
  ASSERT_OK(file->close());
  EXPECT_EQ(count_orphans(), 0);
  EXPECT_EQ(stats(*two_).used_inodes, 2U);
}

TEST_F(SqliteFsTest, ARemovedFileStaysUntilTheLastStoreHasClosedIt) {
  std::unique_ptr<Store> three = open(OpenMode::kReadWrite);
  std::unique_ptr<Store> four = open(OpenMode::kReadWrite);
  write(*one_, "/f", "x");
  write(*one_, "/other", "x");
  std::vector<std::unique_ptr<File>> files;
  for (Store* store : {one_.get(), two_.get(), three.get()}) files.push_back(File::open(store->fs(), "/f").value());
  auto other = File::open(four->fs(), "/other").value();  // it may have /f open as well, for all that others know
  ASSERT_OK(unlink(two_->fs(), "/f"));
  for (std::size_t i : {1U, 0U, 2U}) {
    std::string out(1, ' ');
    EXPECT_EQ(files[i]->read_at(0, as_mutable_bytes(out)).value(), 1U);
    ASSERT_OK(files[i]->close());
  }
  EXPECT_LE(count_orphans(), 1);
  ASSERT_OK(other->close());
  EXPECT_EQ(count_orphans(), 0);
  EXPECT_EQ(stats(*two_).used_inodes, 2U);
}

TEST_F(SqliteFsTest, WhatWasRemovedElsewhereCanNeitherBeLinkedNorOpenedAgain) {
  write(*one_, "/f", "x");
  ASSERT_OK(make_dir(one_->fs(), "/d"));
  Inode dir = stat(one_->fs(), "/d")->inode;
  auto file = File::open(one_->fs(), "/f").value();
  auto holder = File::open(two_->fs(), "/f").value();
  ASSERT_OK(one_->fs().retain(dir));
  std::unique_ptr<Store> three = open(OpenMode::kReadWrite);
  ASSERT_OK(unlink(three->fs(), "/f"));
  ASSERT_OK(remove_dir(three->fs(), "/d"));
  EXPECT_EQ(error_of(one_->fs().link(file->inode(), kRootInode, "again")), Code::kNotFound);
  EXPECT_EQ(error_of(one_->fs().make_dir(dir, "below", {.mode = 0755})), Code::kNotFound);
  EXPECT_EQ(error_of(three->fs().open(file->inode())), Code::kStale);
  one_->fs().forget(dir, 1);
}

TEST_F(SqliteFsTest, AFileThatACrashedStoreHadOpenIsRemovedByTheNextOne) {
  write(*one_, "/f", "x");
  auto file = File::open(one_->fs(), "/f").value();
  one_->database().leave_seat();  // as the kernel does when the process ends
  ASSERT_OK(unlink(two_->fs(), "/f"));
  EXPECT_EQ(count_orphans(), 0) << "nobody else is there";
  write(*two_, "/g", "x");
  one_->database().take_seat();
  ASSERT_OK(unlink(two_->fs(), "/g"));
  EXPECT_EQ(count_orphans(), 1);
  one_->database().leave_seat();
  std::unique_ptr<Store> three = open(OpenMode::kReadWrite);
  EXPECT_EQ(count_orphans(), 0);
  EXPECT_EQ(stats(*two_).used_inodes, 1U);
}

TEST_F(SqliteFsTest, SqlThroughTheSameStoreIsSeenAndLeavesAJournalRow) {
  write(*one_, "/f", "x");
  ASSERT_OK(stat(one_->fs(), "/f"));
  std::int64_t before = one_->journal()->last_seq().value();
  QueryReader ignore{.columns = [](const auto&) -> Status { return Ok{}; },
                     .row = [](const auto&) -> Status { return Ok{}; }};
  EXPECT_EQ(*run_query(*one_, "UPDATE fs_inode SET uid = 77 WHERE ino > 1", QueryAccess::kWrite, ignore), 1);
  EXPECT_EQ(stat(one_->fs(), "/f")->owner.uid, 77U);
  auto rows = one_->journal()->read_after(before, 10).value();
  ASSERT_TRUE(rows && rows->size() == 1);
  EXPECT_EQ((*rows)[0].changes[0].kind, ChangeKind::kEverything);
}

TEST_F(SqliteFsTest, ThreadsOfTwoStoresShareOneDirectory) {
  auto work = [](Store& store, int number) {
    for (int i = 0; i < 50; ++i) {
      std::string path = "/d/" + std::to_string(number) + "-" + std::to_string(i);
      ASSERT_OK(write_file(store.fs(), path, as_bytes(path)));
      ASSERT_OK(read_file(store.fs(), path));
      if (i % 5 == 0) {
        ASSERT_OK(unlink(store.fs(), path));
      }
    }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] { work(number % 2 == 0 ? *one_ : *two_, number); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_dir(one_->fs(), "/d")->size(), 160U);
  EXPECT_EQ(read_dir(two_->fs(), "/d")->size(), 160U);
}

// More nodes than the cache holds: dropped ones are read again.
TEST_F(SqliteFsTest, MoreFilesThanTheCacheHoldsAreAllFound) {
  auto unit = one_->fs().begin(UnitAccess::kWrite).value();
  constexpr int kFiles = 40'000;
  for (int i = 0; i < kFiles; ++i) {
    ASSERT_OK(one_->fs().make_node(kRootInode, std::to_string(i), {.mode = 0600}));
  }
  ASSERT_OK(unit->commit());
  for (int i = 0; i < kFiles; i += 97) EXPECT_OK(stat(one_->fs(), "/" + std::to_string(i)));
  ASSERT_OK(unlink(one_->fs(), "/7"));
  EXPECT_EQ(error_of(stat(one_->fs(), "/7")), Code::kNotFound);
}

// As a mount does: changes are kept back.
class GroupedFsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open(OpenMode mode, Commits commits) {
    StoreOptions options{.mode = mode, .durability = Durability::kProcess, .commits = commits};
    return Store::open(dir_.file("a.db"), options, clock_).value();
  }
  FileSystem& fs() { return store_->fs(); }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<Store> store_ = open(OpenMode::kCreate, Commits::kGrouped);
};

TEST_F(GroupedFsTest, ALittleAtATimeEverythingButTheNewestIsWritten) {
  std::string content(4096, 'x');
  auto path_of = [](int i) { return "/" + std::to_string(i); };
  auto name_of = [](int i) { return std::to_string(i); };
  auto work_off = [this] {
    int pieces = 0;
    while (fs().run_idle_work()) ++pieces;
    return pieces;
  };
  // On a slow machine the time limit may end a batch before any row is settled: then the next one is tried.
  constexpr int kFiles = 100;
  int pieces = 0;
  int files = 0;
  while (pieces == 0 && files < 50 * kFiles) {
    for (int i = 0; i < kFiles; ++i, ++files) {
      Inode file = fs().make_node(kRootInode, name_of(files), {.mode = 0600})->inode;
      ASSERT_OK(fs().write(file, 0, as_bytes(content)));
    }
    pieces = work_off();
  }
  EXPECT_GT(pieces, 0);
  EXPECT_LT(pieces, 3 * files);  // nodes, entries and chunks, except the newest
  for (int i = 0; i < files; i += 7) ASSERT_OK(fs().unlink(kRootInode, name_of(i)));
  for (int i = 1; i < files; i += 7) ASSERT_OK(fs().write(stat(fs(), path_of(i))->inode, 1, as_bytes("changed")));
  for (int i = 2; i < files; i += 7) {
    ASSERT_OK(fs().rename(kRootInode, name_of(i), kRootInode, "r" + name_of(i), RenameMode::kReplace));
  }
  work_off();
  store_.reset();
  store_ = open(OpenMode::kReadOnly, Commits::kEach);
  std::string changed = content;
  changed.replace(1, 7, "changed");
  for (int i = 0; i < files; ++i) {
    std::string path = i % 7 == 2 ? "/r" + name_of(i) : path_of(i);
    if (i % 7 == 0) EXPECT_EQ(error_of(stat(fs(), path)), Code::kNotFound) << path;
    else EXPECT_EQ(*read_file(fs(), path), i % 7 == 1 ? changed : content) << path;
  }
}

// Rows beyond a file's size, as other programs may leave: writing replaces them.
TEST_F(GroupedFsTest, RowsAfterAFilesEndDoNotKeepItFromGrowing) {
  for (Commits commits : {Commits::kGrouped, Commits::kEach}) {
    store_.reset();
    store_ = open(OpenMode::kReadWrite, commits);
    ASSERT_OK(write_file(fs(), "/f", {}));
    Inode file = stat(fs(), "/f")->inode;
    QueryReader ignore{.columns = [](const auto&) -> Status { return Ok{}; },
                       .row = [](const auto&) -> Status { return Ok{}; }};
    for (int index : {0, 9, 20}) {
      std::string sql = "INSERT INTO fs_data VALUES (" + std::to_string(file.value) + ", " + std::to_string(index) +
                        ", CAST('junk' AS BLOB))";
      ASSERT_OK(run_query(*store_, sql, QueryAccess::kWrite, ignore));
    }
    std::string large(40 * 4096 + 5, 'y');
    ASSERT_OK(fs().write(file, 0, as_bytes(large)));
    EXPECT_EQ(*read_file(fs(), "/f"), large);
    ASSERT_OK(unlink(fs(), "/f"));
  }
}

TEST_F(SqliteFsTest, ATableOfOursThatAnOlderVersionDidNotHaveIsCreated) {
  one_.reset();
  two_.reset();
  for (const char* table : {"wr_journal", "wr_xattr", "wr_orphan", "wr_kv_expiry", "wr_expiry", "wr_tool_call"}) {
    {
      auto database = Database::open(dir_.file("a.db"), {.durability = Durability::kProcess}).value();
      Statement drop = database->prepare(UserSql{std::string("DROP TABLE ") + table}).value();
      ASSERT_OK(drop.run());
    }
    one_ = open(OpenMode::kReadWrite);
    write(*one_, "/f", table);
    ASSERT_OK(one_->fs().set_xattr(stat(one_->fs(), "/f")->inode, "user.x", as_bytes("y"), XattrMode::kAny));
    one_.reset();
  }
}

}  // namespace
}  // namespace warren
