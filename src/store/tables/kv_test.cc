#include "store/tables/kv.h"

#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "store/history/history.h"
#include "store/query.h"
#include "store/store.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::error_of;
using testing::FakeClock;
using ::testing::IsEmpty;
using testing::TempDir;

constexpr std::int64_t kStart = 1'700'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

class KeyValueTest : public ::testing::Test {
 protected:
  void SetUp() override { store_ = open(OpenMode::kCreate); }

  std::unique_ptr<Store> open(OpenMode mode) {
    return Store::open(directory_.file("a.db"), {.mode = mode, .durability = Durability::kProcess}, clock_).value();
  }

  KeyValue& kv() { return store_->kv(); }

  std::int64_t number(Sql sql) {
    auto guard = store_->database().lock();
    return store_->database().prepare(sql).value().find_integer().value().value();
  }

  KvEntry entry(const std::string& key) {
    std::vector<KvEntry> found = kv().list({.prefix = key, .after = {}, .limit = 1}).value();
    return found.empty() ? KvEntry() : found[0];
  }

  std::vector<std::string> keys(std::string prefix, std::string after = {}, std::size_t limit = SIZE_MAX) {
    return kv().keys({.prefix = std::move(prefix), .after = std::move(after), .limit = limit}).value();
  }

  TempDir directory_;
  FakeClock clock_{kStart};
  std::unique_ptr<Store> store_;
};

TEST_F(KeyValueTest, APairIsFoundAfterReopening) {
  ASSERT_OK(kv().set("user:1", R"({"name": "Ann", "n": [1, 2.5, null]})"));
  store_.reset();
  store_ = open(OpenMode::kReadWrite);
  EXPECT_EQ(kv().get("user:1").value(), R"({"name": "Ann", "n": [1, 2.5, null]})");
  EXPECT_EQ(kv().find("user:2").value(), std::nullopt);
  EXPECT_EQ(error_of(kv().get("user:2")), Code::kNotFound);
}

// The sum is kept by the process that sets pairs: whatever changes them must be seen.
TEST_F(KeyValueTest, AQuotaCountsThePairsThatThereAreWhoeverChangedThem) {
  auto fill_exactly = [&](std::uint64_t used, const char* what) {
    SCOPED_TRACE(what);
    ASSERT_OK(store_->usage().set_quota({.bytes = used + 3, .inodes = {}}));
    EXPECT_EQ(error_of(kv().set("x", "123")), Code::kNoSpace) << "one byte too many";
    EXPECT_OK(kv().set("x", "12"));
    EXPECT_TRUE(kv().remove("x").value());
  };
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = {}}));
  ASSERT_OK(kv().set("aa", "1234"));
  fill_exactly(6, "set");
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = {}}));
  ASSERT_OK(kv().set("aa", "12345678"));
  fill_exactly(10, "replaced");
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = {}}));
  {
    Transaction dropped = store_->begin_write().value();
    ASSERT_OK(kv().set("bb", "1234"));
  }
  fill_exactly(10, "rolled back");
  {
    auto other = open(OpenMode::kReadWrite);
    ASSERT_OK(other->usage().set_quota({}));
    ASSERT_OK(other->kv().set("cc", "1234"));
  }
  fill_exactly(16, "by another connection");
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = {}}));
  ASSERT_OK(kv().set("dd", "1234", std::chrono::seconds(1)));
  clock_.advance_ns(2 * kSecond);
  ASSERT_OK(kv().purge_expired());
  fill_exactly(16, "expired");
  EXPECT_TRUE(kv().remove("cc").value());
  fill_exactly(10, "removed");
  ASSERT_OK(store_->usage().set_quota({}));
  ASSERT_OK(kv().set("ee", "1234"));
  fill_exactly(16, "set without a quota");
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = {}}));
  auto checkpoint = History(*store_).take("small", "asked");
  ASSERT_OK(checkpoint);
  ASSERT_OK(kv().set("ff", "12345678"));
  ASSERT_OK(History(*store_).restore(checkpoint->id));
  fill_exactly(16, "restored");
  ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = {}}));
  ASSERT_OK(kv().set("gg", "1234"));
  QueryReader nobody{.columns = [](const auto&) -> Status { return Ok{}; },
                     .row = [](const auto&) -> Status { return Ok{}; }};
  ASSERT_OK(run_query(*store_, "DELETE FROM kv_store WHERE key = 'gg'", QueryAccess::kWrite, nobody));
  fill_exactly(16, "by SQL");
}

TEST_F(KeyValueTest, KV1_AKeyHasOneValueAndSettingItAgainReplacesThat) {
  ASSERT_OK(kv().set("k", "1"));
  ASSERT_OK(kv().set("k", "2"));
  EXPECT_EQ(kv().get("k").value(), "2");
  EXPECT_EQ(number("SELECT count(*) FROM kv_store"), 1);
}

TEST_F(KeyValueTest, KV2_AValueThatIsNotJsonIsRefused) {
  for (std::string_view value : {"", "text", "{", "[1,]", "1 2", "'a'", "nul", "\"\xff\"", "\"a\nb\""}) {
    Status status = kv().set("k", value);
    EXPECT_EQ(error_of(status), Code::kInvalid) << value;
    EXPECT_NE(status.error().message().find("'k'"), std::string::npos) << status.error().message();
    EXPECT_EQ(error_of(kv().compare_and_set("k", std::nullopt, value)), Code::kInvalid) << value;
  }
  EXPECT_THAT(keys(""), IsEmpty());
  for (std::string_view value : {"null", "\"text\"", "{}", " [1] ", "-1e3"}) EXPECT_OK(kv().set("k", value));
}

TEST_F(KeyValueTest, KV3_TimesAreUnixSeconds) {
  clock_.advance_ns(999'999'999);
  ASSERT_OK(kv().set("k", "1"));
  EXPECT_EQ(number("SELECT created_at FROM kv_store"), kStart);
  EXPECT_EQ(number("SELECT updated_at FROM kv_store"), kStart);
  EXPECT_EQ(number("SELECT typeof(created_at) = 'integer' FROM kv_store"), 1);
}

TEST_F(KeyValueTest, KV4_AnUpdateRefreshesUpdatedAtAndKeepsCreatedAt) {
  ASSERT_OK(kv().set("k", "1"));
  clock_.advance_ns(5 * kSecond);
  ASSERT_OK(kv().set("k", "2"));
  EXPECT_EQ(entry("k").created_at, kStart);
  EXPECT_EQ(entry("k").updated_at, kStart + 5);
  clock_.advance_ns(5 * kSecond);
  ASSERT_OK(kv().compare_and_set("k", "2", "3"));
  EXPECT_EQ(entry("k").created_at, kStart);
  EXPECT_EQ(entry("k").updated_at, kStart + 10);
}

TEST_F(KeyValueTest, AKeyHasBoundsAndNoNul) {
  EXPECT_EQ(error_of(kv().set("", "1")), Code::kInvalid);
  EXPECT_EQ(error_of(kv().set(std::string_view("a\0b", 3), "1")), Code::kInvalid);
  EXPECT_EQ(error_of(kv().set(std::string(limits::kKeyBytes + 1, 'k'), "1")), Code::kLimit);
  EXPECT_OK(kv().set(std::string(limits::kKeyBytes, 'k'), "1"));
  EXPECT_THAT(keys(""), ElementsAre(std::string(limits::kKeyBytes, 'k')));
}

TEST_F(KeyValueTest, AValueHasABound) {
  std::string value(limits::kValueBytes + 1, ' ');
  value[0] = '1';
  EXPECT_EQ(error_of(kv().set("k", value)), Code::kTooLarge);
  value.pop_back();
  EXPECT_OK(kv().set("k", value));
  EXPECT_EQ(kv().get("k").value().size(), limits::kValueBytes);
}

TEST_F(KeyValueTest, RemoveReturnsWhetherTheKeyExisted) {
  ASSERT_OK(kv().set("k", "1"));
  EXPECT_TRUE(kv().remove("k").value());
  EXPECT_FALSE(kv().remove("k").value());
  EXPECT_EQ(kv().find("k").value(), std::nullopt);
}

TEST_F(KeyValueTest, HostileKeysAreJustBytes) {
  std::vector<std::string> hostile = {"\n",   "%",       "'; DROP TABLE kv_store; --", "\\", "_", "a\tb", "\xc3\x28",
                                      "\xff", "\xff\xff"};
  for (const std::string& key : hostile) ASSERT_OK(kv().set(key, "1"));
  EXPECT_EQ(keys(""), hostile) << "sorted by bytes";
  EXPECT_THAT(keys("%"), ElementsAre("%"));
  EXPECT_THAT(keys("_"), ElementsAre("_"));
  for (const std::string& key : hostile) EXPECT_TRUE(kv().remove(key).value()) << key;
  EXPECT_THAT(keys(""), IsEmpty());
}

TEST_F(KeyValueTest, APrefixMatchesWholeBytesAndNothingElse) {
  for (const char* key :
       {"a", "a:", "a:1", "a:1:x", "a:2", "a;", "b", "A:1", "a\xff", "a\xff\xff", "a\xff\xffz", "\xff", "\xff\xffq"}) {
    ASSERT_OK(kv().set(key, "1"));
  }
  EXPECT_THAT(keys("a:"), ElementsAre("a:", "a:1", "a:1:x", "a:2"));
  EXPECT_THAT(keys("a:1"), ElementsAre("a:1", "a:1:x"));
  EXPECT_THAT(keys("a\xff"), ElementsAre("a\xff", "a\xff\xff", "a\xff\xffz"));
  EXPECT_THAT(keys("\xff"), ElementsAre("\xff", "\xff\xffq"));
  EXPECT_THAT(keys("\xff\xff"), ElementsAre("\xff\xffq"));
  EXPECT_THAT(keys("c"), IsEmpty());
  EXPECT_EQ(keys("").size(), 13U);
}

TEST_F(KeyValueTest, AListContinuesAfterAKeyThatNeedNotExist) {
  for (const char* key : {"a", "b", "p1", "p2", "p3", "q"}) ASSERT_OK(kv().set(key, "1"));
  EXPECT_THAT(keys("p", "p1"), ElementsAre("p2", "p3"));
  EXPECT_THAT(keys("p", "p11"), ElementsAre("p2", "p3"));
  EXPECT_THAT(keys("p", "a"), ElementsAre("p1", "p2", "p3"));
  EXPECT_THAT(keys("p", "p3"), IsEmpty());
  EXPECT_THAT(keys("p", "z"), IsEmpty());
  EXPECT_THAT(keys("", "p3"), ElementsAre("q"));
  EXPECT_THAT(keys("p", "", 2), ElementsAre("p1", "p2"));
  EXPECT_THAT(keys("p", "", 0), IsEmpty());
}

TEST_F(KeyValueTest, TenThousandKeysAreListedInPagesWithoutGapsOrRepeats) {
  std::vector<std::string> all;
  {
    Transaction batch = store_->begin_write().value();
    for (int i = 0; i < 10'000; ++i) {
      all.push_back(fmt::format("key:{:05}", i));
      ASSERT_OK(kv().set(all.back(), std::to_string(i)));
    }
    ASSERT_OK(batch.commit());
  }
  std::vector<std::string> paged;
  std::string after;
  while (true) {
    std::vector<KvEntry> page = kv().list({.prefix = "key:", .after = after, .limit = 777}).value();
    if (page.empty()) break;
    EXPECT_LE(page.size(), 777U);
    for (KvEntry& pair : page) {
      EXPECT_EQ(pair.value, std::to_string(paged.size()));
      paged.push_back(std::move(pair.key));
    }
    after = paged.back();
  }
  EXPECT_EQ(paged, all);
}

TEST_F(KeyValueTest, CompareAndSetChangesOnlyWhatIsExpected) {
  EXPECT_EQ(error_of(kv().compare_and_set("k", "1", "2")), Code::kConflict);
  ASSERT_OK(kv().compare_and_set("k", std::nullopt, "1"));
  EXPECT_EQ(error_of(kv().compare_and_set("k", std::nullopt, "2")), Code::kConflict);
  EXPECT_EQ(error_of(kv().compare_and_set("k", " 1", "2")), Code::kConflict) << "byte for byte";
  EXPECT_EQ(kv().get("k").value(), "1");
  ASSERT_OK(kv().compare_and_set("k", "1", "2"));
  EXPECT_EQ(kv().get("k").value(), "2");
}

TEST_F(KeyValueTest, AConflictInsideATransactionDoesNotBreakIt) {
  ASSERT_OK(kv().set("expired", "1", 1ms));
  clock_.advance_ns(kSecond);
  Transaction batch = store_->begin_write().value();
  ASSERT_OK(kv().set("k", "1"));
  EXPECT_EQ(error_of(kv().compare_and_set("k", "7", "8")), Code::kConflict);
  EXPECT_EQ(error_of(kv().compare_and_set("expired", "1", "8")), Code::kConflict);
  ASSERT_OK(batch.commit());
  EXPECT_EQ(kv().get("k").value(), "1");
}

TEST_F(KeyValueTest, AnExpiredPairDoesNotExist) {
  ASSERT_OK(kv().set("k", "1", 1500ms));
  EXPECT_EQ(entry("k").expires_at_ms, kStart * 1000 + 1500);
  clock_.advance_ns(1'499'999'999);
  EXPECT_EQ(kv().get("k").value(), "1");
  clock_.advance_ns(1);
  EXPECT_EQ(kv().find("k").value(), std::nullopt);
  EXPECT_THAT(keys(""), IsEmpty());
  EXPECT_THAT(kv().list().value(), IsEmpty());
  EXPECT_FALSE(kv().remove("k").value());
  EXPECT_EQ(number("SELECT count(*) FROM kv_store"), 0) << "the write that met it took it away";
  EXPECT_EQ(number("SELECT count(*) FROM wr_kv_expiry"), 0);
}

TEST_F(KeyValueTest, AClockSetBackBringsAPairBackUntilItIsPurged) {
  ASSERT_OK(kv().set("k", "1", 10s));
  clock_.jump_ns(20 * kSecond);
  EXPECT_EQ(kv().find("k").value(), std::nullopt);
  clock_.jump_ns(-20 * kSecond);
  EXPECT_EQ(kv().get("k").value(), "1");
  clock_.jump_ns(20 * kSecond);
  EXPECT_EQ(kv().purge_expired().value(), 1U);
  clock_.jump_ns(-20 * kSecond);
  EXPECT_EQ(kv().find("k").value(), std::nullopt);
}

TEST_F(KeyValueTest, SettingWithoutATimeToLiveDropsTheOldOne) {
  ASSERT_OK(kv().set("set", "1", 10s));
  ASSERT_OK(kv().set("swapped", "1", 10s));
  ASSERT_OK(kv().set("set", "2"));
  ASSERT_OK(kv().compare_and_set("swapped", "1", "2"));
  clock_.advance_ns(20 * kSecond);
  EXPECT_EQ(kv().get("set").value(), "2");
  EXPECT_EQ(kv().get("swapped").value(), "2");
  EXPECT_EQ(number("SELECT count(*) FROM wr_kv_expiry"), 0);
}

TEST_F(KeyValueTest, SettingAgainWithATimeToLiveRenewsIt) {
  ASSERT_OK(kv().set("k", "1", 10s));
  clock_.advance_ns(8 * kSecond);
  ASSERT_OK(kv().set("k", "2", 10s));
  clock_.advance_ns(8 * kSecond);
  EXPECT_EQ(kv().get("k").value(), "2");
  EXPECT_EQ(entry("k").created_at, kStart);
}

TEST_F(KeyValueTest, SettingAnExpiredKeyMakesANewPair) {
  ASSERT_OK(kv().set("set", "1", 1s));
  ASSERT_OK(kv().set("swapped", "1", 1s));
  clock_.advance_ns(2 * kSecond);
  ASSERT_OK(kv().set("set", "2"));
  ASSERT_OK(kv().compare_and_set("swapped", std::nullopt, "2"));
  EXPECT_EQ(entry("set").created_at, kStart + 2);
  EXPECT_EQ(entry("swapped").created_at, kStart + 2);
}

TEST_F(KeyValueTest, ATimeToLiveIsPositiveAndMayBeForever) {
  EXPECT_EQ(error_of(kv().set("k", "1", 0ms)), Code::kInvalid);
  EXPECT_EQ(error_of(kv().set("k", "1", -1ms)), Code::kInvalid);
  ASSERT_OK(kv().set("k", "1", std::chrono::milliseconds::max()));
  EXPECT_EQ(entry("k").expires_at_ms, INT64_MAX);
  clock_.advance_ns(kSecond * 3600 * 24 * 365 * 100);
  EXPECT_EQ(kv().get("k").value(), "1");
}

TEST_F(KeyValueTest, PurgeRemovesOnlyExpiredPairs) {
  ASSERT_OK(kv().set("short", "1", 1s));
  ASSERT_OK(kv().set("long", "1", 100s));
  ASSERT_OK(kv().set("for good", "1"));
  clock_.advance_ns(2 * kSecond);
  EXPECT_EQ(kv().purge_expired().value(), 1U);
  EXPECT_EQ(kv().purge_expired().value(), 0U);
  EXPECT_THAT(keys(""), ElementsAre("for good", "long"));
  EXPECT_EQ(number("SELECT count(*) FROM kv_store"), 2);
  EXPECT_EQ(number("SELECT count(*) FROM wr_kv_expiry"), 1);
}

// An AgentFS program does not know wr_kv_expiry.
TEST_F(KeyValueTest, APairThatAnotherProgramWroteAfterItsTimeStays) {
  ASSERT_OK(kv().set("k", "1", 1s));
  clock_.advance_ns(5 * kSecond);
  ASSERT_OK(store_->database().execute("UPDATE kv_store SET value = '2', updated_at = 1700000004 WHERE key = 'k'"));
  EXPECT_EQ(kv().get("k").value(), "2");
  EXPECT_EQ(entry("k").expires_at_ms, std::nullopt);
  EXPECT_EQ(kv().purge_expired().value(), 0U);
  EXPECT_EQ(kv().get("k").value(), "2");
}

TEST_F(KeyValueTest, AnExpiryWhosePairAnotherProgramRemovedIsPurged) {
  ASSERT_OK(kv().set("k", "1", 1s));
  ASSERT_OK(store_->database().execute("DELETE FROM kv_store"));
  clock_.advance_ns(2 * kSecond);
  EXPECT_EQ(kv().purge_expired().value(), 0U);
  EXPECT_EQ(number("SELECT count(*) FROM wr_kv_expiry"), 0);
}

TEST_F(KeyValueTest, TwoStoresOnOneFileSeeEachOthersWrites) {
  std::unique_ptr<Store> other = open(OpenMode::kReadWrite);
  ASSERT_OK(kv().set("k", "1"));
  EXPECT_EQ(other->kv().get("k").value(), "1");
  ASSERT_OK(other->kv().set("k", "2"));
  EXPECT_EQ(kv().get("k").value(), "2");
  EXPECT_TRUE(other->kv().remove("k").value());
  EXPECT_EQ(kv().find("k").value(), std::nullopt);
}

TEST_F(KeyValueTest, TheCacheIsNeverOlderThanTheFile) {
  ASSERT_OK(kv().set("k", "1"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kv().get("k").value(), "1");
  {
    auto unit = store_->begin_write().value();
    ASSERT_OK(kv().set("k", "2"));
    EXPECT_EQ(kv().get("k").value(), "2");
  }
  EXPECT_EQ(kv().get("k").value(), "1");  // it was not committed
  ASSERT_OK(store_->database().execute("UPDATE kv_store SET value = '3' WHERE key = 'k'"));
  EXPECT_EQ(kv().get("k").value(), "3");
  ASSERT_OK(kv().set("k", "4", 5s));
  EXPECT_EQ(kv().get("k").value(), "4");
  clock_.advance_ns(6 * kSecond);
  EXPECT_EQ(kv().find("k").value(), std::nullopt);
}

TEST_F(KeyValueTest, MorePairsThanTheCacheHoldsAreAllFound) {
  constexpr int kKeys = 2000;
  auto unit = store_->begin_write().value();
  auto value = [](int i) { return fmt::format("\"{:01000}\"", i); };
  for (int i = 0; i < kKeys; ++i) ASSERT_OK(kv().set(std::to_string(i), value(i)));
  ASSERT_OK(unit.commit());
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kKeys; ++i) ASSERT_EQ(kv().get(std::to_string(i)).value(), value(i));
  }
}

void count_up(KeyValue& kv, int times) {
  while (times > 0) {
    std::optional<std::string> value = kv.find("counter").value();
    std::string next = std::to_string(value ? std::stoi(*value) + 1 : 1);
    Status status = kv.compare_and_set("counter", value, next);
    if (status.ok()) {
      --times;
    } else {
      ASSERT_EQ(error_of(status), Code::kConflict) << status.error().message();
    }
  }
}

TEST_F(KeyValueTest, ThreadsOnTwoConnectionsLoseNoCount) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::unique_ptr<Store> other = open(OpenMode::kReadWrite);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      KeyValue& mine = i % 2 == 0 ? kv() : other->kv();
      for (int n = 0; n < kEach; ++n) EXPECT_OK(mine.set(fmt::format("{}:{}", i, n), std::to_string(n)));
      count_up(mine, kEach);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kv().get("counter").value(), std::to_string(kThreads * kEach));
  EXPECT_EQ(keys("").size(), kThreads * kEach + 1U);
}

TEST_F(KeyValueTest, AnUncommittedTransactionLeavesNothing) {
  ASSERT_OK(kv().set("before", "1"));
  std::int64_t rows = number("SELECT count(*) FROM wr_journal");
  {
    Transaction batch = store_->begin_write().value();
    for (int i = 0; i < 1000; ++i) ASSERT_OK(kv().set(std::to_string(i), "1"));
    EXPECT_TRUE(kv().remove("before").value());
  }
  EXPECT_THAT(keys(""), ElementsAre("before"));
  ASSERT_OK(kv().set("after", "1"));
  EXPECT_EQ(number("SELECT count(*) FROM wr_journal"), rows + 1);
}

TEST_F(KeyValueTest, PairsWrittenByStockSqliteAreReadUnchanged) {
  ASSERT_OK(store_->database().execute(
      "INSERT INTO kv_store (key, value) VALUES ('', '1'), ('n', 5), ('t', 'not json'); "
      "INSERT INTO kv_store (key, value, created_at, updated_at) VALUES ('u', '1', NULL, NULL), (x'41', '1', 1, 1)"));
  EXPECT_THAT(keys(""), ElementsAre("", "n", "t", "u"));
  EXPECT_EQ(kv().get("n").value(), "5");
  EXPECT_EQ(kv().get("t").value(), "not json");
  EXPECT_EQ(entry("u").created_at, 0);
  EXPECT_TRUE(kv().remove("").value());
}

TEST_F(KeyValueTest, AnExpiryThatAnotherStoreSetCountsHereToo) {
  auto other = open(OpenMode::kReadWrite);
  ASSERT_OK(kv().set("a", "1"));
  EXPECT_EQ(kv().get("a").value(), "1");  // no expiries so far, and that is cached
  ASSERT_OK(other->kv().set("a", "2", std::chrono::seconds(5)));
  EXPECT_EQ(kv().get("a").value(), "2");
  clock_.advance_ns(6 * kSecond);
  EXPECT_EQ(kv().find("a").value(), std::nullopt);
}

TEST_F(KeyValueTest, AReadOnlyStoreReadsAndRefusesToWrite) {
  ASSERT_OK(kv().set("k", "1"));
  std::unique_ptr<Store> reader = open(OpenMode::kReadOnly);
  EXPECT_EQ(reader->kv().get("k").value(), "1");
  EXPECT_EQ(error_of(reader->kv().set("k", "2")), Code::kReadOnly);
  EXPECT_EQ(error_of(reader->kv().compare_and_set("k", "1", "2")), Code::kReadOnly);
  EXPECT_EQ(error_of(reader->kv().remove("k")), Code::kReadOnly);
  EXPECT_EQ(error_of(reader->kv().purge_expired()), Code::kReadOnly);
}

constexpr Sql kForeignFs =
    "CREATE TABLE fs_inode (ino INTEGER PRIMARY KEY AUTOINCREMENT, mode INTEGER NOT NULL, "
    "nlink INTEGER NOT NULL DEFAULT 0, uid INTEGER NOT NULL DEFAULT 0, gid INTEGER NOT NULL DEFAULT 0, "
    "size INTEGER NOT NULL DEFAULT 0, atime INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, "
    "rdev INTEGER NOT NULL DEFAULT 0, atime_nsec INTEGER NOT NULL DEFAULT 0, "
    "mtime_nsec INTEGER NOT NULL DEFAULT 0, ctime_nsec INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE fs_dentry (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, "
    "parent_ino INTEGER NOT NULL, ino INTEGER NOT NULL, UNIQUE(parent_ino, name));"
    "CREATE TABLE fs_data (ino INTEGER NOT NULL, chunk_index INTEGER NOT NULL, data BLOB NOT NULL, "
    "PRIMARY KEY (ino, chunk_index));"
    "INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime) VALUES (1, 16877, 1, 0, 0, 0)";

class ForeignKeyValueTest : public ::testing::Test {
 protected:
  void make(Sql more) {
    auto database = Database::open(directory_.file("a.db"), {.mode = OpenMode::kCreate}).value();
    ASSERT_OK(database->execute(kForeignFs));
    ASSERT_OK(database->execute(more));
  }

  std::unique_ptr<Store> open(OpenMode mode) {
    return Store::open(directory_.file("a.db"), {.mode = mode}, clock_).value();
  }

  TempDir directory_;
  FakeClock clock_{kStart};
};

TEST_F(ForeignKeyValueTest, AFileWithoutAKeyValueTableReadsAsEmpty) {
  make("SELECT 1");
  std::unique_ptr<Store> store = open(OpenMode::kReadOnly);
  EXPECT_EQ(store->kv().find("k").value(), std::nullopt);
  EXPECT_THAT(store->kv().keys().value(), IsEmpty());
  EXPECT_THAT(store->kv().list().value(), IsEmpty());
  EXPECT_EQ(error_of(store->kv().set("k", "1")), Code::kReadOnly);
}

TEST_F(ForeignKeyValueTest, AFileWithoutOurTablesIsReadAndThenWritten) {
  make(
      "CREATE TABLE kv_store (key TEXT PRIMARY KEY, value TEXT NOT NULL, "
      "created_at INTEGER DEFAULT (unixepoch()), updated_at INTEGER DEFAULT (unixepoch()));"
      "INSERT INTO kv_store VALUES ('a', '1', 5, 6), ('b', '2', 7, 8)");
  {
    std::unique_ptr<Store> store = open(OpenMode::kReadOnly);
    EXPECT_EQ(store->kv().get("a").value(), "1");
    EXPECT_THAT(store->kv().keys({.prefix = "b", .after = {}, .limit = 5}).value(), ElementsAre("b"));
    KvEntry first = store->kv().list().value().at(0);
    EXPECT_EQ(first.created_at, 5);
    EXPECT_EQ(first.updated_at, 6);
    EXPECT_EQ(first.expires_at_ms, std::nullopt);
  }
  std::unique_ptr<Store> store = open(OpenMode::kReadWrite);
  ASSERT_OK(store->kv().set("a", "3", 1s));
  EXPECT_EQ(store->kv().list().value().at(0).created_at, 5);
  clock_.advance_ns(2 * kSecond);
  EXPECT_THAT(store->kv().keys().value(), ElementsAre("b"));
}

TEST_F(KeyValueTest, AnExpiredPairStaysExpiredAfterARollback) {
  ASSERT_OK(kv().set("k", "1", 1000ms));
  ASSERT_OK(kv().set("other", "2"));
  store_.reset();
  store_ = open(OpenMode::kReadWrite);
  clock_.advance_ns(2 * kSecond);
  {
    Transaction unit = store_->begin_write().value();
    EXPECT_EQ(kv().purge_expired().value(), 1U);
    EXPECT_EQ(kv().find("other").value(), "2");  // learns that nothing expires
  }
  EXPECT_EQ(kv().find("k").value(), std::nullopt);
  EXPECT_EQ(error_of(kv().compare_and_set("k", "1", "3")), Code::kConflict);
}

}  // namespace
}  // namespace warren
