// The Redis store against real servers.
#include "backends/blob/redis_blobs.h"

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

SystemClock& system_clock() {
  static SystemClock clock;
  return clock;
}

std::unique_ptr<BlobStore> open_store(const std::string& address) {
  Result<std::unique_ptr<BlobStore>> store = open_blob_store(address, {.clock = system_clock()});
  EXPECT_OK(store);
  return store.ok() ? std::move(store).take_value() : nullptr;
}

RedisServer& shared_server() {
  static RedisServer server({"--requirepass", "geheim"});
  return server;
}

int prefix_count = 0;

std::string own_address() {
  return fmt::format("redis://:geheim@{}/2?prefix=test{}", shared_server().address(), prefix_count);
}

INSTANTIATE_TEST_SUITE_P(Redis, BlobStoreTest,
                         ::testing::Values(BlobSuiteCase{.name = "redis",
                                                         .make =
                                                             [] {
                                                               ++prefix_count;
                                                               return open_store(own_address());
                                                             },
                                                         .open_again = [] { return open_store(own_address()); },
                                                         .secret = "geheim"}),
                         name_of_case);

TEST(RedisBlobs, AValueIsPlainForOtherClients) {
  RedisServer server;
  auto store = open_store(fmt::format("redis://{}?prefix=fleet/a1", server.address()));
  ASSERT_OK(store->put("notes/today", as_bytes("hello"), {.ttl = std::chrono::hours(1)}));
  EXPECT_EQ(server.ask("GET fleet/a1:notes/today"), "$5\r\nhello\r\n");
  EXPECT_NE(server.ask("TTL fleet/a1:notes/today"), ":-1\r\n");
  EXPECT_EQ(server.ask("ZRANGE fleet/a1;index 0 -1"), "*1\r\n$11\r\nnotes/today\r\n");
}

TEST(RedisBlobs, AValueByAnotherProgramIsReadAndNotOverwrittenByAccident) {
  RedisServer server;
  auto store = open_store(fmt::format("redis://{}?prefix=p", server.address()));
  server.ask("SET p:foreign value");
  auto blob = store->get("foreign");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_EQ((*blob)->content, "value");
  EXPECT_EQ(error_of(store->put("foreign", as_bytes("x"), {.if_absent = true})), Code::kExists);
  EXPECT_OK(store->put("foreign", as_bytes("x"), {.if_match = (*blob)->info.version}));
}

TEST(RedisBlobs, StoresWithDifferentPrefixesSeeNothingOfEachOther) {
  RedisServer server;
  auto one = open_store(fmt::format("redis://{}?prefix=one", server.address()));
  auto two = open_store(fmt::format("redis://{}?prefix=one.two", server.address()));
  ASSERT_OK(one->put("k", as_bytes("1")));
  auto found = two->get("k");
  ASSERT_OK(found);
  EXPECT_FALSE(*found);
  auto page = two->list({});
  ASSERT_OK(page);
  EXPECT_TRUE(page->blobs.empty());
}

TEST(RedisBlobs, AListingRemovesExpiredKeysFromTheIndex) {
  RedisServer server;
  auto store = open_store(fmt::format("redis://{}?prefix=p", server.address()));
  std::string exist = "EXISTS";
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(store->put(fmt::format("short{}", i), as_bytes("x"), {.ttl = milliseconds(1)}));
    exist += fmt::format(" p:short{}", i);
  }
  ASSERT_OK(store->put("stays", as_bytes("x")));
  while (server.ask(exist) != ":0\r\n") {
  }
  auto page = store->list({});
  ASSERT_OK(page);
  EXPECT_EQ(page->blobs.size(), 1U);
  EXPECT_EQ(server.ask("ZCARD p;index"), ":1\r\n");
}

TEST(RedisBlobs, AWrongPasswordIsDeniedWithoutBeingNamed) {
  for (std::string login : {":falsch1", "user:falsch2"}) {
    auto store = open_store(fmt::format("redis://{}@{}", login, shared_server().address()));
    auto got = store->get("a");
    ASSERT_EQ(error_of(got), Code::kDenied);
    EXPECT_EQ(got.error().message().find("falsch"), std::string::npos) << got.error().message();
  }
  auto none = open_store(fmt::format("redis://{}", shared_server().address()));
  EXPECT_EQ(error_of(none->get("a")), Code::kDenied);
  EXPECT_EQ(error_of(none->put("a", as_bytes("x"))), Code::kDenied);
}

TEST(RedisBlobs, AUserWithoutARightIsDenied) {
  RedisServer server;
  server.ask("ACL SETUSER reader on >pw ~p* +@read +@connection +@scripting");
  auto store = open_store(fmt::format("redis://reader:pw@{}?prefix=p", server.address()));
  EXPECT_OK(store->get("a"));
  EXPECT_EQ(error_of(store->put("a", as_bytes("x"))), Code::kDenied);
}

TEST(RedisBlobs, AFullServerHasNoSpace) {
  RedisServer server({"--maxmemory", "2mb", "--maxmemory-policy", "noeviction"});
  auto store = open_store(fmt::format("redis://{}", server.address()));
  Result<BlobInfo> put = store->put("a", as_bytes("x"));
  for (int i = 0; i < 100 && put.ok(); ++i)
    put = store->put(fmt::format("k{}", i), as_bytes(std::string(100'000, 'x')));
  EXPECT_EQ(error_of(put), Code::kNoSpace);
}

TEST(RedisBlobs, AnInvalidAddressIsRefused) {
  for (const char* bad : {"redis://", "redis://h:0", "redis://h/x", "redis://h/-1", "redis://h?prefix=",
                          "redis://h?prefix=a:b", "redis://h?prefix=a{b}", "redis://h?timeout=soon",
                          "redis://h?timeout=0s", "redis://h?connections=0", "redis://h?wrong=1", "redis://h1,h2",
                          "redis://user@h", "redis+sentinel://h", "redis+cluster://h/1", "redis+unknown://h"}) {
    EXPECT_EQ(error_of(open_blob_store(bad, {.clock = system_clock()})), Code::kInvalid) << bad;
  }
  auto store = open_store(fmt::format("redis://:geheim@{}/99", shared_server().address()));
  EXPECT_EQ(error_of(store->get("a")), Code::kInvalid) << "no such database";
}

TEST(RedisBlobs, AMissingServerIsUnavailable) {
  auto missing = open_store(fmt::format("redis://127.0.0.1:{}", free_port()));
  EXPECT_EQ(error_of(missing->get("a")), Code::kUnavailable);
  auto name = open_store("redis://no-such-host.invalid");
  EXPECT_EQ(error_of(name->get("a")), Code::kUnavailable);
}

// A server that also listens with TLS, with a certificate signed by itself for 127.0.0.1.
class TlsServer {
 public:
  TlsServer() : tls_port_(free_port()) {
    run_program({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", dir_.file("key"), "-out", certificate()},
                dir_.file("log"));
    server_.emplace(std::vector<std::string>{"--tls-port", std::to_string(tls_port_), "--tls-cert-file", certificate(),
                                             "--tls-key-file", dir_.file("key"), "--tls-ca-cert-file", certificate(),
                                             "--tls-auth-clients", "no"});
  }
  std::string certificate() const { return dir_.file("certificate"); }
  std::uint16_t port() const { return tls_port_; }

 private:
  TempDir dir_;
  std::uint16_t tls_port_;
  std::optional<RedisServer> server_;
};

TEST(RedisBlobs, TlsNeedsATrustedCertificateForTheHost) {
  TlsServer server;
  auto store = open_store(fmt::format("rediss://127.0.0.1:{}?ca={}", server.port(), server.certificate()));
  std::string large(1 << 20, 'x');
  ASSERT_OK(store->put("a", as_bytes(large)));
  auto blob = store->get("a");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_EQ((*blob)->content, large);
  auto untrusted = open_store(fmt::format("rediss://127.0.0.1:{}", server.port()));
  EXPECT_EQ(error_of(untrusted->get("a")), Code::kDenied);
  auto other_name = open_store(fmt::format("rediss://localhost:{}?ca={}", server.port(), server.certificate()));
  EXPECT_EQ(error_of(other_name->get("a")), Code::kDenied);
  auto missing_file = open_store(fmt::format("rediss://127.0.0.1:{}?ca=/nonexistent", server.port()));
  EXPECT_EQ(error_of(missing_file->get("a")), Code::kInvalid);
  auto plain_server = open_store(fmt::format("rediss://{}", shared_server().address()));
  EXPECT_EQ(error_of(plain_server->get("a")), Code::kUnavailable);
}

TEST(RedisBlobs, FaultsOfTheNetworkAreBoundedAndPassWithTls) {
  TlsServer server;
  FaultyProxy proxy(server.port());
  auto store = open_store(fmt::format("rediss://127.0.0.1:{}?timeout=900ms&ca={}", proxy.port(), server.certificate()));
  expect_faults_are_bounded(*store, proxy);
}

TEST(RedisBlobs, FaultsOfTheNetworkAreBoundedAndPass) {
  RedisServer server;
  FaultyProxy proxy(server.port());
  auto store = open_store(fmt::format("redis://127.0.0.1:{}?timeout=400ms", proxy.port()));
  expect_faults_are_bounded(*store, proxy);
  expect_slow_answers_are_right(*store, proxy);
}

TEST(RedisBlobs, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  RedisServer server({"--appendonly", "yes", "--appendfsync", "always"});
  expect_nothing_acknowledged_is_lost([&] { return open_store(fmt::format("redis://{}", server.address())); },
                                      [&] { server.kill(); }, [&] { server.start(); });
}

TEST(RedisBlobs, TwoProcessesDoNotOverwriteEachOther) {
  RedisServer server;
  expect_two_processes_count([&] { return open_store(fmt::format("redis://{}", server.address())); }, 300);
}

TEST(RedisBlobs, MoreThreadsThanConnectionsTakeTurns) {
  RedisServer server;
  auto store = open_store(fmt::format("redis://{}?connections=2", server.address()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 50; ++n) EXPECT_OK(store->put(fmt::format("{}/{}", i, n), as_bytes("x")));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.ask("ZCARD warren;index"), ":400\r\n");
}

}  // namespace
}  // namespace warren::testing
