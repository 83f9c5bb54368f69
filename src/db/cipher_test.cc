#include "db/cipher.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "db/database.h"
#include "db/faulty_vfs_testing.h"
#include "db/transaction.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::TempDir;

constexpr std::string_view kPlainText = "the quick brown fox";
constexpr std::string_view kSalt = "sixteen bytes...";
constexpr int kRows = 60;

SharedDatabaseKey key_from(char letter) {
  return std::make_shared<const DatabaseKey>(std::string(DatabaseKey::kKeyBytes, letter), kSalt);
}

KeyFinder finder_of(SharedDatabaseKey key) {
  return [key](std::string_view) -> Result<SharedDatabaseKey> { return key; };
}

std::string bytes_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

void put_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

Status fill(Database& database) {
  WARREN_TRY(database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"));
  Statement insert = WARREN_TRY(database.prepare("INSERT INTO t VALUES (?, ?)"));
  Transaction scope = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  for (int i = 0; i < kRows; ++i) {
    std::string text;
    for (int n = 0; n < 100; ++n) text += fmt::format("{} {} ", kPlainText, i);
    WARREN_TRY(insert.bind(1, i).bind(2, text).run());
  }
  return scope.commit();
}

// What the table should have, or the error of the first read that failed.
Result<int> count_right_rows(Database& database) {
  Statement query = WARREN_TRY(database.prepare("SELECT id, v FROM t ORDER BY id"));
  Rows rows = query.rows();
  int right = 0;
  while (WARREN_TRY(rows.next())) {
    if (rows.text(1).starts_with(fmt::format("{} {} ", kPlainText, rows.integer(0)))) ++right;
  }
  return right;
}

class CipherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(file_, {.mode = OpenMode::kCreate, .key = key_});
    ASSERT_OK(database);
    ASSERT_OK(fill(**database));
    ASSERT_OK((*database)->empty_log());
  }

  Result<std::unique_ptr<Database>> open(OpenMode mode = OpenMode::kReadWrite) {
    return Database::open(file_, {.mode = mode, .find_key = finder_of(key_)});
  }

  TempDir dir_;
  std::string file_ = dir_.file("a.db");
  SharedDatabaseKey key_ = key_from('k');
};

TEST_F(CipherTest, WhatWasWrittenIsReadWithTheKeyInEveryMode) {
  for (OpenMode mode : {OpenMode::kReadWrite, OpenMode::kReadOnly, OpenMode::kImmutable}) {
    auto database = open(mode);
    ASSERT_OK(database);
    EXPECT_EQ(count_right_rows(**database).value(), kRows);
    EXPECT_EQ((*database)->key(), key_);
  }
}

TEST_F(CipherTest, NothingReadableIsInTheFileOrItsLog) {
  auto database = open().value();
  ASSERT_OK(
      database->execute("CREATE TABLE another_secret_name (x); INSERT INTO another_secret_name VALUES ('"
                        "the quick brown fox"
                        "')"));
  std::string log = bytes_in(database->wal_path());
  ASSERT_GT(log.size(), 4096U);
  for (const std::string& bytes : {bytes_in(file_), log}) {
    EXPECT_EQ(bytes.find(kPlainText), std::string::npos);
    EXPECT_EQ(bytes.find("CREATE TABLE"), std::string::npos);
    EXPECT_EQ(bytes.find("another_secret_name"), std::string::npos);
    EXPECT_EQ(bytes.find(std::string(DatabaseKey::kKeyBytes, 'k')), std::string::npos);
  }
  EXPECT_EQ(bytes_in(file_).substr(0, kSalt.size()), kSalt);
}

TEST_F(CipherTest, WithoutAKeyItIsDeniedAndWithAnotherItIsNotOpened) {
  EXPECT_EQ(error_of(Database::open(file_, {})), Code::kDenied);
  EXPECT_EQ(error_of(Database::open(file_, {.mode = OpenMode::kReadOnly})), Code::kDenied);
  auto wrong = Database::open(file_, {.find_key = finder_of(key_from('w'))});
  ASSERT_EQ(error_of(wrong), Code::kCorrupt);
  EXPECT_NE(wrong.error().message().find("key does not fit"), std::string::npos) << wrong.error().message();
  EXPECT_EQ(count_right_rows(*open().value()).value(), kRows);
}

TEST_F(CipherTest, TheErrorOfTheFinderIsReturned) {
  auto refuse = [](std::string_view salt) -> Result<SharedDatabaseKey> {
    return Error(Code::kUnavailable, fmt::format("no key for {}", salt));
  };
  auto opened = Database::open(file_, {.find_key = refuse});
  ASSERT_EQ(error_of(opened), Code::kUnavailable);
  EXPECT_NE(opened.error().message().find(kSalt), std::string::npos);
}

// Every page, at its beginning, in the middle, in its tag and in its nonce; of the first page every readable byte too.
TEST_F(CipherTest, AChangedByteIsAnErrorAndNeverOtherContent) {
  const std::string sound = bytes_in(file_);
  constexpr std::size_t kPage = 4096;
  ASSERT_GT(sound.size() / kPage, 30U);
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 24; ++at) places.push_back(at);
  for (std::size_t page = 0; page < sound.size() / kPage; ++page) {
    for (std::size_t at :
         {std::size_t{24}, std::size_t{100}, kPage / 2, kPage - 64, kPage - 33, kPage - 32, kPage - 1}) {
      places.push_back(page * kPage + at);
    }
  }
  for (std::size_t place : places) {
    std::string changed = sound;
    changed[place] = static_cast<char>(changed[place] ^ 0x01);
    put_bytes(file_, changed);
    auto salted = [&](std::string_view salt) -> Result<SharedDatabaseKey> {  // as a key that depends on the salt
      return std::make_shared<const DatabaseKey>(std::string(DatabaseKey::kKeyBytes, salt == kSalt ? 'k' : 'x'), salt);
    };
    auto database = Database::open(file_, {.mode = OpenMode::kReadOnly, .find_key = salted});
    Result<int> read = database.ok() ? count_right_rows(**database) : Result<int>(database.error());
    if (read.ok()) {
      // A page that no row is on. A check of the whole file finds it.
      EXPECT_EQ(*read, kRows) << place;
      Statement check = (*database)->prepare("PRAGMA integrity_check").value();
      Rows rows = check.rows();
      Result<bool> next = rows.next();
      EXPECT_FALSE(next.ok() && rows.text(0) == "ok") << place;
    }
    for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(file_ + suffix);
  }
}

TEST_F(CipherTest, PagesThatWereSwappedAreAnError) {
  std::string bytes = bytes_in(file_);
  constexpr std::size_t kPage = 4096;
  std::string fifth = bytes.substr(4 * kPage, kPage);
  bytes.replace(4 * kPage, kPage, bytes.substr(9 * kPage, kPage));
  bytes.replace(9 * kPage, kPage, fifth);
  put_bytes(file_, bytes);
  auto database = open(OpenMode::kReadOnly);
  ASSERT_OK(database);
  EXPECT_EQ(error_of(count_right_rows(**database)), Code::kCorrupt);
}

TEST_F(CipherTest, ATruncatedFileIsAnError) {
  std::string bytes = bytes_in(file_);
  put_bytes(file_, std::string_view(bytes).substr(0, bytes.size() - 4096));
  auto database = open(OpenMode::kReadOnly);
  EXPECT_TRUE(!database.ok() || !count_right_rows(**database).ok());
}

TEST_F(CipherTest, ABackupHasTheSameKeyAndSaltOrTheOneThatIsGiven) {
  auto database = open().value();
  ASSERT_OK(database->backup_to(dir_.file("same.db")));
  auto same = Database::open(dir_.file("same.db"), {.find_key = finder_of(key_)});
  ASSERT_OK(same);
  EXPECT_EQ(count_right_rows(**same).value(), kRows);
  auto other = std::make_shared<const DatabaseKey>(std::string(DatabaseKey::kKeyBytes, 'o'), "another salt....");
  ASSERT_OK(database->backup_to(dir_.file("other.db"), CopyOf::kSound, other));
  EXPECT_EQ(error_of(Database::open(dir_.file("other.db"), {.find_key = finder_of(key_)})), Code::kInvalid);
  auto opened = Database::open(dir_.file("other.db"), {.find_key = finder_of(other)});
  ASSERT_OK(opened);
  EXPECT_EQ(count_right_rows(**opened).value(), kRows);
  for (const char* name : {"same.db", "other.db"}) {
    EXPECT_EQ(bytes_in(dir_.file(name)).find(kPlainText), std::string::npos) << name;
  }
}

TEST_F(CipherTest, APlainFileStaysAnOrdinaryDatabase) {
  std::string plain = dir_.file("plain.db");
  {
    auto database = Database::open(plain, {.mode = OpenMode::kCreate}).value();
    ASSERT_OK(fill(*database));
  }
  std::string bytes = bytes_in(plain);
  EXPECT_TRUE(bytes.starts_with(std::string_view("SQLite format 3", 16)));
  EXPECT_EQ(bytes[20], 0);  // no reserved bytes
  EXPECT_NE(bytes.find(kPlainText), std::string::npos);
  auto never = [](std::string_view) -> Result<SharedDatabaseKey> { return Error(Code::kInternal, "asked for a key"); };
  auto database = Database::open(plain, {.find_key = never});
  ASSERT_OK(database);
  EXPECT_EQ((*database)->key(), nullptr);
  EXPECT_EQ(count_right_rows(**database).value(), kRows);
}

// Both would use the same random numbers if the generator's state were copied.
TEST_F(CipherTest, AForkedProcessDoesNotUseTheNoncesOfItsParent) {
  ASSERT_OK(open().value()->execute("UPDATE t SET v = v"));  // the generator is in use
  auto write_copy = [&](const std::string& name) {
    auto copy = Database::open(dir_.file(name), {.mode = OpenMode::kCreate, .key = key_});
    return copy.ok() && fill(**copy).ok();
  };
  pid_t child = ::fork();
  if (child == 0) ::_exit(write_copy("child.db") ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_TRUE(write_copy("parent.db"));
  std::set<std::string> nonces;
  std::size_t pages = 0;
  for (const char* name : {"child.db", "parent.db"}) {
    std::string bytes = bytes_in(dir_.file(name));
    for (std::size_t end = 4096; end <= bytes.size(); end += 4096, ++pages) nonces.insert(bytes.substr(end - 32, 32));
  }
  EXPECT_GT(pages, 60U);
  EXPECT_EQ(nonces.size(), pages);
}

TEST_F(CipherTest, WhileItIsHeldAloneNobodyElseOpensIt) {
  auto database = open().value();
  {
    auto other = open().value();
    EXPECT_EQ(error_of(database->hold_alone()), Code::kBusy);
  }
  ASSERT_OK(database->hold_alone());
  auto late = Database::open(file_, {.busy_wait = std::chrono::milliseconds(1), .find_key = finder_of(key_)});
  EXPECT_EQ(error_of(late), Code::kBusy);
  EXPECT_EQ(count_right_rows(*database).value(), kRows);
}

TEST_F(CipherTest, ADatabaseIsWrittenAnewWithAndWithoutAKey) {
  std::string plain = dir_.file("it's plain?.db");
  std::string again = dir_.file("again.db");
  ASSERT_OK(Database::open(file_, {.find_key = finder_of(key_)}).value()->write_anew(plain, nullptr));
  EXPECT_TRUE(bytes_in(plain).starts_with(std::string_view("SQLite format 3", 16)));
  auto other = std::make_shared<const DatabaseKey>(std::string(DatabaseKey::kKeyBytes, '\''), "other '?&% salt.");
  {
    auto database = Database::open(plain, {.conversion = Conversion::kPossible});
    ASSERT_OK(database);
    EXPECT_EQ(count_right_rows(**database).value(), kRows);
    ASSERT_OK((*database)->hold_alone());
    ASSERT_OK((*database)->write_anew(again, other));
    EXPECT_EQ(error_of((*database)->write_anew(again, other)), Code::kExists);
  }
  EXPECT_EQ(bytes_in(again).find(kPlainText), std::string::npos);
  EXPECT_EQ(error_of(Database::open(again, {})), Code::kDenied);
  auto database = Database::open(again, {.find_key = finder_of(other)});
  ASSERT_OK(database);
  EXPECT_EQ(count_right_rows(**database).value(), kRows);
}

// The other process opens the file before it is replaced, and gives up waiting for the lock, or opens the new one.
TEST_F(CipherTest, NobodyGoesOnWithAFileThatWasReplaced) {
  auto database = open().value();
  ASSERT_OK(database->hold_alone());
  ASSERT_OK(database->leave_no_journal());
  pid_t child = ::fork();
  if (child == 0) {
    auto late = Database::open(file_, {.busy_wait = std::chrono::milliseconds(700), .find_key = finder_of(key_)});
    bool is_busy = !late.ok() && late.error().code() == Code::kBusy;
    ::_exit(is_busy || (late.ok() && (*late)->check_name().ok()) ? 0 : 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // for the first of the two; either is right
  ASSERT_OK(database->backup_to(dir_.file("new.db")));
  std::filesystem::rename(dir_.file("new.db"), file_);
  database->outwait_others();
  database.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(count_right_rows(*open().value()).value(), kRows);
}

TEST_F(CipherTest, SqlFromUsersCannotTouchKeys) {
  auto database = open().value();
  for (std::string_view sql : {"PRAGMA rekey = 'x'", "PRAGMA key = 'x'", "PRAGMA hexrekey = '00'", "PRAGMA cipher",
                               "SELECT sqlite3mc_config('cipher')", "PRAGMA cipher_salt"}) {
    EXPECT_FALSE(database->prepare(UserSql{sql}).ok()) << sql;
  }
  EXPECT_OK(database->prepare(UserSql{"SELECT count(*) FROM t"}));
}

// A failing disk is not a damaged file.
TEST(CipherFault, AFailedReadIsAnIoError) {
  TempDir dir;
  std::string file = dir.file("a.db");
  SharedDatabaseKey key = key_from('k');
  ASSERT_OK(fill(*Database::open(file, {.mode = OpenMode::kCreate, .key = key}).value()));
  testing::FaultyVfs disk;
  for (int nth = 1;; ++nth) {
    ASSERT_LT(nth, 500);
    disk.fail({.nth = nth, .call = testing::DiskCall::kRead});
    auto database = Database::open(file, {.find_key = finder_of(key), .vfs = disk.name()});
    Result<int> read = database.ok() ? count_right_rows(**database) : Result<int>(database.error());
    bool fired = disk.fired();
    disk.heal();
    if (read.ok()) EXPECT_EQ(*read, kRows) << nth;
    else EXPECT_EQ(read.error().code(), Code::kIo) << nth << ": " << read.error().message();
    if (!fired) break;
  }
}

// All or nothing at a power cut, as without encryption.
TEST(CipherFault, ACommitSurvivesAPowerCutOrIsNotThere) {
  for (int nth = 1; nth <= 40; ++nth) {
    TempDir dir;
    std::string file = dir.file("a.db");
    SharedDatabaseKey key = key_from('k');
    testing::FaultyVfs disk;
    disk.hold_back();
    bool committed = false;
    {
      auto database = Database::open(file, {.mode = OpenMode::kCreate, .key = key, .vfs = disk.name()}).value();
      ASSERT_OK(fill(*database));
      ASSERT_OK(database->sync());
      ASSERT_OK(database->empty_log());
      disk.cut_power_after(nth, testing::PowerLoss::kTorn, static_cast<std::uint64_t>(nth));
      committed = database->execute("DELETE FROM t WHERE id % 2 = 1").ok() && !disk.power_is_cut();
    }
    auto database = Database::open(file, {.find_key = finder_of(key)});
    ASSERT_OK(database);
    Result<int> rows = count_right_rows(**database);
    ASSERT_OK(rows);
    EXPECT_TRUE(*rows == kRows / 2 || (!committed && *rows == kRows)) << nth << ": " << *rows;
  }
}

// The same for a change while nobody else has the file open.
TEST(CipherFault, AChangeOfAHeldDatabaseSurvivesAPowerCutOrIsNotThere) {
  bool ever_cut = false;
  for (int nth = 1; nth <= 40; ++nth) {
    TempDir dir;
    std::string file = dir.file("a.db");
    ASSERT_OK(fill(*Database::open(file, {.mode = OpenMode::kCreate}).value()));
    testing::FaultyVfs disk;
    disk.hold_back();
    bool committed = false;
    {
      auto database = Database::open(file, {.vfs = disk.name()}).value();
      ASSERT_OK(database->hold_alone());
      disk.cut_power_after(nth, testing::PowerLoss::kTorn, static_cast<std::uint64_t>(nth));
      Status changed = database->execute("CREATE TABLE more AS SELECT * FROM t; DELETE FROM t WHERE id % 2 = 1");
      committed = changed.ok() && !disk.power_is_cut();
      ever_cut |= disk.power_is_cut();
    }
    auto database = Database::open(file, {});
    ASSERT_OK(database);
    auto sound = (*database)->prepare("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'");
    ASSERT_OK(sound);
    EXPECT_EQ(sound->find_integer().value(), 1) << nth;
    int rows = count_right_rows(**database).value();
    EXPECT_TRUE(rows == kRows / 2 || (!committed && rows == kRows)) << nth << ": " << rows;
    EXPECT_FALSE(std::filesystem::exists(file + "-journal")) << nth;
  }
  EXPECT_TRUE(ever_cut);
}

}  // namespace
}  // namespace warren
