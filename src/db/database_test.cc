#include "db/database.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "db/transaction.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::TempDir;

std::unique_ptr<Database> create(const std::string& path, std::uint32_t page_bytes = 4096) {
  auto database = Database::open(path, {.mode = OpenMode::kCreate, .page_bytes = page_bytes}).value();
  EXPECT_OK(database->execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 0), (2, 0)"));
  return database;
}

std::int64_t number(Database& database, Sql sql) {
  return database.prepare(sql).value().find_integer().value().value();
}

bool is_whole(Database& database) {
  Statement check = database.prepare("PRAGMA integrity_check").value();
  Rows rows = check.rows();
  return rows.next().value() && rows.text(0) == "ok";
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

void write_content(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

bool exists(const std::string& path) { return std::filesystem::exists(path); }

TEST(Database, AMissingFileIsNotFoundAndNotCreated) {
  TempDir directory;
  EXPECT_EQ(error_of(Database::open(directory.file("a.db"), {})), Code::kNotFound);
  EXPECT_EQ(error_of(Database::open(directory.file("a.db"), {.mode = OpenMode::kReadOnly})), Code::kNotFound);
  EXPECT_FALSE(exists(directory.file("a.db")));
}

TEST(Database, AnExistingFileIsNotCreatedAgain) {
  TempDir directory;
  create(directory.file("a.db"));
  EXPECT_EQ(error_of(Database::open(directory.file("a.db"), {.mode = OpenMode::kCreate})), Code::kExists);
  EXPECT_EQ(number(*Database::open(directory.file("a.db"), {}).value(), "SELECT count(*) FROM t"), 2);
}

TEST(Database, ADanglingSymlinkIsNotCreatedThrough) {
  TempDir directory;
  std::filesystem::create_symlink(directory.file("target"), directory.file("a.db"));
  EXPECT_EQ(error_of(Database::open(directory.file("a.db"), {.mode = OpenMode::kCreate})), Code::kExists);
  EXPECT_FALSE(exists(directory.file("target")));
}

TEST(Database, AFileIsNotCreatedInAMissingDirectory) {
  TempDir directory;
  EXPECT_EQ(error_of(Database::open(directory.file("no/a.db"), {.mode = OpenMode::kCreate})), Code::kNotFound);
}

TEST(Database, AnEmptyPathIsRefused) {
  EXPECT_EQ(error_of(Database::open("", {.mode = OpenMode::kCreate})), Code::kInvalid);
}

TEST(Database, ADirectoryIsNotADatabase) {
  TempDir directory;
  EXPECT_FALSE(Database::open(directory.path(), {}).ok());
  EXPECT_FALSE(Database::open(directory.path(), {.mode = OpenMode::kReadOnly}).ok());
}

TEST(Database, AFileThatIsNotADatabaseIsCorruptAndNotChanged) {
  TempDir directory;
  std::string content;
  while (content.size() < 10'000) content += "This is a shopping list. ";
  write_content(directory.file("a.db"), content);
  Result<std::unique_ptr<Database>> opened = Database::open(directory.file("a.db"), {});
  EXPECT_EQ(error_of(opened), Code::kCorrupt);
  EXPECT_NE(opened.error().message().find("a.db"), std::string::npos) << opened.error().message();
  EXPECT_EQ(error_of(Database::open(directory.file("a.db"), {.mode = OpenMode::kReadOnly})), Code::kCorrupt);
  EXPECT_EQ(content_of(directory.file("a.db")), content);
  EXPECT_FALSE(exists(directory.file("a.db-wal")));
}

TEST(Database, WhatLiesBesideAFileThatIsNotADatabaseStays) {
  TempDir directory;
  for (std::size_t size : {9, 100, 100'000}) {
    write_content(directory.file("note"), std::string(size, 'x'));
    write_content(directory.file("note-wal"), "a list of walls");
    for (OpenMode mode : {OpenMode::kReadOnly, OpenMode::kReadWrite}) {
      EXPECT_EQ(error_of(Database::open(directory.file("note"), {.mode = mode})), Code::kCorrupt);
      ASSERT_TRUE(exists(directory.file("note-wal"))) << size;
      EXPECT_EQ(content_of(directory.file("note-wal")), "a list of walls");
    }
  }
}

TEST(Database, ATruncatedFileIsCorruptWhereItIsRead) {
  TempDir directory;
  std::string path = directory.file("a.db");
  ASSERT_OK(create(path)->execute(
      "WITH n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT i, hex(i) FROM n"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 8192 * 4096);
  auto opened = Database::open(path, {.mode = OpenMode::kReadOnly});
  if (!opened.ok()) {
    EXPECT_EQ(error_of(opened), Code::kCorrupt);
    return;
  }
  Result<Statement> query = (*opened)->prepare("SELECT sum(length(v)) FROM t");
  EXPECT_EQ(query.ok() ? error_of(query->find_integer()) : error_of(query), Code::kCorrupt);
}

TEST(Database, APathIsTakenLiterally) {
  TempDir directory;
  for (std::string name : {"a?mode=ro.db", "b#c.db", "d%41.db", "e f.db", "g\xff.db", "h&immutable=1.db"}) {
    create(directory.file(name));
    EXPECT_TRUE(exists(directory.file(name))) << name;
    auto reader = Database::open(directory.file(name), {.mode = OpenMode::kReadOnly});
    ASSERT_OK(reader);
    EXPECT_EQ(number(**reader, "SELECT count(*) FROM t"), 2) << name;
  }
  create("/" + directory.file("twice.db"));
  EXPECT_TRUE(exists(directory.file("twice.db")));
}

TEST(Database, ACleanCloseLeavesASingleFile) {
  TempDir directory;
  std::string path = directory.file("a.db");
  {
    auto database = create(path);
    auto second = Database::open(path, {}).value();
    EXPECT_TRUE(exists(path + "-wal"));
  }
  EXPECT_FALSE(exists(path + "-wal"));
  EXPECT_FALSE(exists(path + "-shm"));
  std::filesystem::copy_file(path, directory.file("copy.db"));
  EXPECT_EQ(number(*Database::open(directory.file("copy.db"), {}).value(), "SELECT count(*) FROM t"), 2);
}

TEST(Database, AMemoryDatabaseIsPrivateAndLeavesNoFile) {
  auto one = create(":memory:");
  auto two = Database::open(":memory:", {.mode = OpenMode::kCreate}).value();
  EXPECT_EQ(number(*two, "SELECT count(*) FROM sqlite_schema"), 0);
  EXPECT_OK(one->sync());
  EXPECT_FALSE(exists(":memory:"));
}

TEST(Database, ConnectionsSeeEachOthersCommits) {
  TempDir directory;
  auto one = create(directory.file("a.db"));
  auto two = Database::open(directory.file("a.db"), {}).value();
  ASSERT_OK(one->execute("UPDATE t SET v = 7 WHERE id = 1"));
  EXPECT_EQ(number(*two, "SELECT v FROM t WHERE id = 1"), 7);
  ASSERT_OK(two->execute("UPDATE t SET v = 8 WHERE id = 1"));
  EXPECT_EQ(number(*one, "SELECT v FROM t WHERE id = 1"), 8);
}

std::uint64_t epoch_in_transaction(Database& database) {
  Transaction change = Transaction::begin(database, Access::kWrite).value();
  return database.foreign_epoch();
}

TEST(Database, TheForeignEpochMovesWhenAnotherConnectionCommitsAndOnlyThen) {
  TempDir directory;
  auto one = create(directory.file("a.db"));
  auto two = Database::open(directory.file("a.db"), {}).value();
  std::uint64_t before = epoch_in_transaction(*one);
  {
    Transaction own = Transaction::begin(*one, Access::kWrite).value();
    ASSERT_OK(one->execute("UPDATE t SET v = 1"));
    ASSERT_OK(own.commit());
  }
  EXPECT_EQ(epoch_in_transaction(*one), before) << "our own commits are not foreign";
  ASSERT_OK(two->execute("UPDATE t SET v = 2"));
  std::uint64_t after = epoch_in_transaction(*one);
  EXPECT_NE(after, before);
  EXPECT_EQ(epoch_in_transaction(*one), after);
}

TEST(Database, AForeignCommitBeforeOurOwnIsNotMistakenForOurs) {
  TempDir directory;
  auto one = create(directory.file("a.db"));
  auto two = Database::open(directory.file("a.db"), {}).value();
  std::uint64_t before = epoch_in_transaction(*one);
  ASSERT_OK(two->execute("UPDATE t SET v = 2"));
  {
    Transaction own = Transaction::begin(*one, Access::kWrite).value();
    ASSERT_OK(one->execute("UPDATE t SET v = 3 WHERE id = 1"));
    ASSERT_OK(own.commit());
  }
  EXPECT_NE(epoch_in_transaction(*one), before);
}

TEST(Database, OpeningAFileWithoutALogWaitsForItsWriter) {
  TempDir dir;
  std::string path = dir.file("a.db");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(other, "CREATE TABLE t (v); BEGIN IMMEDIATE; INSERT INTO t VALUES (7)", nullptr, nullptr, nullptr),
      SQLITE_OK);
  auto impatient = Database::open(path, {.busy_wait = std::chrono::milliseconds(0)});
  ASSERT_FALSE(impatient.ok());
  EXPECT_EQ(impatient.error().code(), Code::kBusy);
  auto opening = std::async(std::launch::async, [&] { return Database::open(path, {}); });
  EXPECT_EQ(opening.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  auto opened = opening.get();
  ASSERT_OK(opened);
  EXPECT_EQ(number(**opened, "SELECT v FROM t"), 7);
}

TEST(Database, AReadOnlyConnectionSeesWhatOthersWriteAndWritesNothing) {
  TempDir directory;
  auto writer = create(directory.file("a.db"));
  auto reader = Database::open(directory.file("a.db"), {.mode = OpenMode::kReadOnly}).value();
  EXPECT_TRUE(reader->is_read_only());
  ASSERT_OK(writer->execute("UPDATE t SET v = 7"));
  EXPECT_EQ(number(*reader, "SELECT v FROM t WHERE id = 1"), 7);
  EXPECT_EQ(error_of(reader->execute("DELETE FROM t")), Code::kReadOnly);
}

TEST(Database, TheSchemaOfAFileCannotBeTamperedWith) {
  TempDir directory;
  auto database = create(directory.file("a.db"));
  ASSERT_OK(database->execute("PRAGMA writable_schema=ON"));
  EXPECT_FALSE(database->execute("DELETE FROM sqlite_schema").ok());
}

TEST(Database, SizeCountsPagesAndFreePages) {
  TempDir directory;
  auto database = create(directory.file("a.db"));
  ASSERT_OK(database->execute("INSERT INTO t VALUES (3, zeroblob(1000000))"));
  DatabaseSize full = database->size().value();
  EXPECT_EQ(full.page_bytes, 4096U);
  EXPECT_GT(full.used_bytes, 1'000'000U);
  ASSERT_OK(database->execute("DELETE FROM t WHERE id = 3"));
  DatabaseSize emptied = database->size().value();
  EXPECT_EQ(emptied.total_bytes, full.total_bytes);
  EXPECT_LT(emptied.used_bytes, 100'000U);
}

TEST(DatabaseBackup, ACopyIsCompleteWhateverThePageSize) {
  TempDir directory;
  for (std::uint32_t page_bytes : {512U, 4096U, 16'384U, 65'536U}) {
    std::string path = directory.file(std::to_string(page_bytes));
    auto source = create(path, page_bytes);
    ASSERT_OK(source->backup_to(path + ".copy"));
    EXPECT_FALSE(exists(path + ".copy-wal"));
    auto copy = Database::open(path + ".copy", {}).value();
    EXPECT_EQ(copy->size().value().page_bytes, page_bytes);
    EXPECT_EQ(number(*copy, "SELECT count(*) FROM t"), 2);
    EXPECT_TRUE(is_whole(*copy));
  }
}

TEST(DatabaseBackup, AMemoryDatabaseCanBeBackedUp) {
  TempDir directory;
  ASSERT_OK(create(":memory:")->backup_to(directory.file("copy.db")));
  auto copy = Database::open(directory.file("copy.db"), {}).value();
  EXPECT_EQ(number(*copy, "SELECT count(*) FROM t"), 2);
}

TEST(DatabaseBackup, AnExistingTargetIsRefusedAndNotChanged) {
  TempDir directory;
  auto source = create(directory.file("a.db"));
  write_content(directory.file("copy.db"), "precious");
  EXPECT_EQ(error_of(source->backup_to(directory.file("copy.db"))), Code::kExists);
  EXPECT_EQ(content_of(directory.file("copy.db")), "precious");
  EXPECT_EQ(error_of(source->backup_to(directory.file("a.db"))), Code::kExists);
}

TEST(DatabaseBackup, AFileOfSomebodyElseIsNotTouched) {
  TempDir directory;
  auto source = create(directory.file("a.db"));
  write_content(directory.file("copy.db.partial"), "precious");
  write_content(directory.file("copy.db.partial-wal"), "too");
  ASSERT_OK(source->backup_to(directory.file("copy.db")));
  EXPECT_TRUE(is_whole(*Database::open(directory.file("copy.db"), {}).value()));
  EXPECT_EQ(content_of(directory.file("copy.db.partial")), "precious");
  EXPECT_EQ(content_of(directory.file("copy.db.partial-wal")), "too");
}

TEST(DatabaseBackup, ADamagedDatabaseIsOnlyCopiedOnRequest) {
  TempDir directory;
  std::string path = directory.file("a.db");
  ASSERT_OK(create(path)->execute("INSERT INTO t VALUES (3, zeroblob(100000))"));
  std::string content = content_of(path);
  content.replace(content.size() - 8192, 8192, std::string(8192, '\x5a'));
  write_content(path, content);
  auto source = Database::open(path, {.mode = OpenMode::kReadOnly}).value();
  EXPECT_EQ(error_of(source->backup_to(directory.file("copy.db"))), Code::kCorrupt);
  EXPECT_FALSE(exists(directory.file("copy.db")));
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    EXPECT_EQ(entry.path().string().find(".partial"), std::string::npos) << entry.path();
  }
  ASSERT_OK(source->backup_to(directory.file("copy.db"), CopyOf::kDamaged));
  EXPECT_EQ(content_of(directory.file("copy.db")).size(), content.size());
}

TEST(DatabaseBackup, ATargetThatCannotBeCreatedIsReported) {
  TempDir directory;
  auto source = create(directory.file("a.db"));
  EXPECT_EQ(error_of(source->backup_to(directory.file("no/copy.db"))), Code::kNotFound);
}

TEST(DatabaseBackup, UncommittedChangesAreNotBackedUp) {
  TempDir directory;
  auto source = create(directory.file("a.db"));
  Transaction change = Transaction::begin(*source, Access::kWrite).value();
  ASSERT_OK(source->execute("DELETE FROM t"));
  EXPECT_EQ(error_of(source->backup_to(directory.file("copy.db"))), Code::kBusy);
  EXPECT_FALSE(exists(directory.file("copy.db")));
}

TEST(DatabaseBackup, ACopyMadeWhileAnotherConnectionWritesHasWholeTransactions) {
  TempDir directory;
  auto source = create(directory.file("a.db"));
  auto writer = Database::open(directory.file("a.db"), {.durability = Durability::kProcess}).value();
  std::atomic<bool> done = false;
  std::thread writing([&] {
    Statement first = writer->prepare("UPDATE t SET v = v + 1 WHERE id = 1").value();
    Statement second = writer->prepare("UPDATE t SET v = v + 1 WHERE id = 2").value();
    while (!done) {
      Transaction change = Transaction::begin(*writer, Access::kWrite).value();
      EXPECT_OK(first.run());
      EXPECT_OK(second.run());
      EXPECT_OK(change.commit());
    }
  });
  for (int i = 0; i < 10; ++i) {
    std::string path = directory.file("copy" + std::to_string(i));
    EXPECT_OK(source->backup_to(path));
    auto copy = Database::open(path, {});
    if (!copy.ok()) {
      ADD_FAILURE() << copy.error().message();
      break;
    }
    EXPECT_EQ(number(**copy, "SELECT max(v) - min(v) FROM t"), 0);
    EXPECT_TRUE(is_whole(**copy));
  }
  done = true;
  writing.join();
}

// Root ignores permissions; a child process with another user id does not.
void become_nobody() {
  constexpr uid_t kNobody = 65534;
  if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(3);
}

TEST(DatabaseDeathTest, AFileInAReadOnlyDirectoryCanBeRead) {
  TempDir directory;
  create(directory.file("a.db"));
  ASSERT_EQ(chmod(directory.file("a.db").c_str(), 0444), 0);
  ASSERT_EQ(chmod(directory.path().c_str(), 0555), 0);
  auto read_as_nobody = [&] {
    become_nobody();
    auto reader = Database::open(directory.file("a.db"), {.mode = OpenMode::kReadOnly});
    if (!reader.ok()) fmt::print(stderr, "{}\n", reader.error().message());
    _exit(reader.ok() && number(**reader, "SELECT count(*) FROM t") == 2 ? 0 : 1);
  };
  EXPECT_EXIT(read_as_nobody(), ::testing::ExitedWithCode(0), "");
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
}

TEST(DatabaseDeathTest, AFileThatMayNotBeReadIsDenied) {
  TempDir directory;
  create(directory.file("a.db"));
  ASSERT_EQ(chmod(directory.file("a.db").c_str(), 0000), 0);
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  auto open_as_nobody = [&] {
    become_nobody();
    _exit(error_of(Database::open(directory.file("a.db"), {.mode = OpenMode::kReadOnly})) == Code::kDenied ? 0 : 1);
  };
  EXPECT_EXIT(open_as_nobody(), ::testing::ExitedWithCode(0), "");
}

TEST(DatabaseDeathTest, AFileThatMayNotBeWrittenIsDeniedToAWriterAndNothingIsLeftBesideIt) {
  TempDir directory;
  create(directory.file("a.db"));
  ASSERT_EQ(chmod(directory.file("a.db").c_str(), 0444), 0);
  ASSERT_EQ(chmod(directory.path().c_str(), 0777), 0);
  auto open_as_nobody = [&] {
    become_nobody();
    _exit(error_of(Database::open(directory.file("a.db"), {})) == Code::kDenied ? 0 : 1);
  };
  EXPECT_EXIT(open_as_nobody(), ::testing::ExitedWithCode(0), "");
  EXPECT_FALSE(std::filesystem::exists(directory.file("a.db-wal")));
  EXPECT_FALSE(std::filesystem::exists(directory.file("a.db-shm")));
}

}  // namespace
}  // namespace warren
