// The PostgreSQL store against a real server.
#include "backends/blob/postgres_blobs.h"

#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/blob/blob_suite_testing.h"
#include "backends/blob_faults.h"
#include "backends/open_backend.h"
#include "backends/servers.h"
#include "testing/matchers.h"

namespace warren::testing {
namespace {

using std::chrono::milliseconds;

SystemClock& postgres_clock() {
  static SystemClock clock;
  return clock;
}

std::unique_ptr<BlobStore> open_in_postgres(const std::string& address) {
  Result<std::unique_ptr<BlobStore>> store = open_blob_store(address, {.clock = postgres_clock()});
  EXPECT_OK(store);
  return store.ok() ? std::move(store).take_value() : nullptr;
}

PostgresServer& postgres() {
  static PostgresServer server;
  return server;
}

const std::string& shared_database() {
  static const std::string name = postgres().new_database();
  return name;
}

int space_count = 0;

std::string own_space() { return fmt::format("{}?prefix=test{}", postgres().url(shared_database()), space_count); }

// All cases in one table, as a fleet would have it.
INSTANTIATE_TEST_SUITE_P(Postgres, BlobStoreTest,
                         ::testing::Values(BlobSuiteCase{.name = "postgres",
                                                         .make =
                                                             [] {
                                                               ++space_count;
                                                               return open_in_postgres(own_space());
                                                             },
                                                         .open_again = [] { return open_in_postgres(own_space()); }}),
                         name_of_case);

TEST(PostgresBlobs, ProcessesThatStartAtOnceMakeOneTable) {
  std::string url = postgres().url(postgres().new_database());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto store = open_in_postgres(url);
      EXPECT_OK(store->put(fmt::format("k{}", i), as_bytes("x")));
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto page = open_in_postgres(url)->list({});
  ASSERT_OK(page);
  EXPECT_EQ(page->blobs.size(), 8U);
}

TEST(PostgresBlobs, SomeoneWhoMayNotCreateTablesUsesOneThatExists) {
  std::string database = postgres().new_database();
  ASSERT_OK(open_in_postgres(postgres().url(database))->put("a", as_bytes("x")));
  postgres().query(database,
                   "CREATE ROLE reader LOGIN PASSWORD 'pw'; REVOKE CREATE ON SCHEMA public FROM PUBLIC; "
                   "GRANT SELECT ON warren_blobs TO reader");
  auto store = open_in_postgres(postgres().url(database, "reader:pw"));
  auto blob = store->get("a");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_EQ((*blob)->content, "x");
  EXPECT_EQ(error_of(store->put("a", as_bytes("y"))), Code::kDenied);
  EXPECT_EQ(error_of(open_in_postgres(postgres().url(database, "reader:pw") + "?table=other")->get("a")),
            Code::kDenied);
}

TEST(PostgresBlobs, ExpiredRowsAreCollectedByWriters) {
  std::string database = postgres().new_database();
  auto store = open_in_postgres(postgres().url(database));
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(store->put(fmt::format("short{}", i), as_bytes("x"), {.ttl = milliseconds(1)}));
  }
  std::this_thread::sleep_for(milliseconds(10));
  for (int i = 0; i < 100; ++i) ASSERT_OK(store->put("stays", as_bytes("x")));
  EXPECT_EQ(postgres().query(database, "SELECT count(*) FROM warren_blobs"), "1");
}

TEST(PostgresBlobs, AWrongPasswordIsDeniedWithoutBeingNamed) {
  auto store = open_in_postgres(postgres().url("postgres", "other:falsch"));
  auto got = store->get("a");
  ASSERT_EQ(error_of(got), Code::kDenied);
  EXPECT_EQ(got.error().message().find("falsch"), std::string::npos) << got.error().message();
  EXPECT_EQ(store->name().find("falsch"), std::string::npos);
}

TEST(PostgresBlobs, APasswordCanComeFromElsewhere) {
  std::string database = postgres().new_database();
  auto store = open_blob_store(postgres().url(database, "other"), {.clock = postgres_clock(), .password = "geheim"});
  ASSERT_OK(store);
  EXPECT_OK((*store)->put("a", as_bytes("x")));
  auto wrong = open_blob_store(postgres().url(database, "other:geheim") + "?prefix=p",
                               {.clock = postgres_clock(), .password = "falsch"});
  ASSERT_OK(wrong);
  EXPECT_EQ(error_of((*wrong)->get("a")), Code::kDenied);
}

TEST(PostgresBlobs, AnInvalidAddressIsRefused) {
  for (const char* bad : {"postgres://h/d?prefix=", "postgres://h/d?table=Robert%22", "postgres://h/d?table=1x",
                          "postgres://h/d?timeout=x", "postgres://h/d?connections=0", "postgres://h/d?nonsense=1",
                          "postgres://u:geheim@[h/d"}) {
    auto store = open_blob_store(bad, {.clock = postgres_clock()});
    ASSERT_EQ(error_of(store), Code::kInvalid) << bad;
    EXPECT_EQ(store.error().message().find("geheim"), std::string::npos);
  }
  EXPECT_EQ(error_of(open_in_postgres(postgres().url("missing"))->get("a")), Code::kNotFound);
  EXPECT_EQ(error_of(open_in_postgres(fmt::format("postgres://u@127.0.0.1:{}/d", free_port()))->get("a")),
            Code::kUnavailable);
}

std::string through(const FaultyProxy& proxy, const std::string& database, const char* timeout) {
  return fmt::format("postgres://warren@127.0.0.1:{}/{}?timeout={}", proxy.port(), database, timeout);
}

TEST(PostgresBlobs, FaultsOfTheNetworkAreBoundedAndPass) {
  FaultyProxy proxy(postgres().port());
  auto store = open_in_postgres(through(proxy, postgres().new_database(), "900ms"));
  expect_faults_are_bounded(*store, proxy);
  expect_slow_answers_are_right(*store, proxy);
}

// Before, a server that fell silent right after the login was waited for without end.
TEST(PostgresBlobs, AServerThatFallsSilentAtAnyByteIsBounded) {
  FaultyProxy proxy(postgres().port());
  std::string database = postgres().new_database();
  ASSERT_OK(open_in_postgres(postgres().url(database))->put("a", as_bytes("x")));
  for (std::size_t bytes : {0, 1, 9, 100, 300, 320, 340, 360, 380, 400, 420, 440, 460, 480, 500, 550, 600}) {
    SCOPED_TRACE(bytes);
    proxy.set_answer_limit(bytes);
    auto begin = std::chrono::steady_clock::now();
    Result<std::optional<Blob>> got = open_in_postgres(through(proxy, database, "150ms"))->get("a");
    EXPECT_TRUE(got.ok() || got.error().code() == Code::kUnavailable) << got.error().message();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  }
}

TEST(PostgresBlobs, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  PostgresServer server;
  std::string url = server.url(server.new_database());
  expect_nothing_acknowledged_is_lost([&] { return open_in_postgres(url); }, [&] { server.kill(); },
                                      [&] { server.start(); });
}

TEST(PostgresBlobs, TwoProcessesDoNotOverwriteEachOther) {
  std::string url = postgres().url(postgres().new_database());
  expect_two_processes_count([&] { return open_in_postgres(url); }, 100);
}

TEST(PostgresBlobs, BatchesThatLockEachOthersRowsBothHappen) {
  std::string url = postgres().url(postgres().new_database());
  auto store = open_in_postgres(url);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      std::vector<BlobChange> changes;
      for (int n = 0; n < 50; ++n) {
        changes.push_back({.key = fmt::format("k{:02}", i == 0 ? n : 49 - n), .content = as_bytes("x"), .options = {}});
      }
      for (int round = 0; round < 20; ++round) EXPECT_OK(store->apply(changes));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace warren::testing
