#include "backends/blob/sqlite_blobs.h"

#include <filesystem>

#include "backends/blob/blob_suite_testing.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

FakeClock& sqlite_clock() {
  static FakeClock clock;
  return clock;
}

std::unique_ptr<BlobStore> open_sqlite_store(const std::string& path) {
  Result<std::unique_ptr<SqliteBlobs>> store = SqliteBlobs::open(path, sqlite_clock());
  EXPECT_OK(store);
  return store.ok() ? std::move(store).take_value() : nullptr;
}

TempDir& sqlite_dir() {
  static TempDir dir;
  return dir;
}

int sqlite_count = 0;

std::string sqlite_file() { return sqlite_dir().file("blobs" + std::to_string(sqlite_count) + ".db"); }

INSTANTIATE_TEST_SUITE_P(Sqlite, BlobStoreTest,
                         ::testing::Values(BlobSuiteCase{.name = "sqlite",
                                                         .make =
                                                             [] {
                                                               ++sqlite_count;
                                                               return open_sqlite_store(sqlite_file());
                                                             },
                                                         .open_again = [] { return open_sqlite_store(sqlite_file()); },
                                                         .let_pass =
                                                             [](std::chrono::milliseconds time) {
                                                               sqlite_clock().advance_ns(
                                                                   std::chrono::nanoseconds(time).count());
                                                             },
                                                         .rounds = 10}),
                         name_of_case);

TEST(SqliteBlobs, KeepsWhatWasPutWhenItIsClosed) {
  TempDir dir;
  std::string version;
  {
    auto store = open_sqlite_store(dir.file("a.db"));
    ASSERT_NE(store, nullptr);
    Result<BlobInfo> info = store->put("k", as_bytes("v"));
    ASSERT_OK(info);
    version = info->version;
  }
  EXPECT_FALSE(std::filesystem::exists(dir.file("a.db-wal"))) << "a clean close leaves one file";
  auto store = open_sqlite_store(dir.file("a.db"));
  ASSERT_NE(store, nullptr);
  Result<std::optional<Blob>> blob = store->get("k");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_EQ((*blob)->content, "v");
  EXPECT_EQ((*blob)->info.version, version);
}

TEST(SqliteBlobs, RefusesADatabaseOfSomethingElse) {
  TempDir dir;
  {
    auto other = Database::open(dir.file("other.db"), {.mode = OpenMode::kCreate});
    ASSERT_OK(other);
    ASSERT_OK((*other)->execute("CREATE TABLE precious (x)"));
  }
  Result<std::unique_ptr<SqliteBlobs>> store = SqliteBlobs::open(dir.file("other.db"), sqlite_clock());
  ASSERT_EQ(error_of(store), Code::kInvalid);
  EXPECT_NE(store.error().message().find("other.db"), std::string::npos);
  EXPECT_EQ(error_of(SqliteBlobs::open("", sqlite_clock())), Code::kInvalid);
  EXPECT_FALSE(SqliteBlobs::open(dir.file("missing/a.db"), sqlite_clock()).ok());
}

TEST(SqliteBlobs, ExpiredRowsAreCollectedByWriters) {
  TempDir dir;
  FakeClock clock;
  auto store = SqliteBlobs::open(dir.file("a.db"), clock);
  ASSERT_OK(store);
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK((*store)->put("k" + std::to_string(i), as_bytes("x"), {.ttl = std::chrono::milliseconds(10)}));
  }
  clock.advance_ns(20'000'000);
  ASSERT_OK((*store)->put("new", as_bytes("x"), {}));
  auto db = Database::open(dir.file("a.db"), {.mode = OpenMode::kReadOnly});
  ASSERT_OK(db);
  Result<Statement> count = (*db)->prepare("SELECT count(*) FROM wr_blobs");
  ASSERT_OK(count);
  EXPECT_EQ(count->find_integer().value(), 1);
}

}  // namespace
}  // namespace warren::testing
