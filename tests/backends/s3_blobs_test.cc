// The S3 store against a real server that checks signatures.
#include "backends/blob/s3_blobs.h"

#include <cstdlib>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/blob/blob_suite_testing.h"
#include "backends/blob_faults.h"
#include "backends/open_backend.h"
#include "backends/s3_server.h"
#include "base/percent.h"
#include "clients/url.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren::testing {
namespace {

using std::chrono::milliseconds;

SystemClock& system_clock() {
  static SystemClock clock;
  return clock;
}

// One for all tests of this program: it takes seconds to start.
S3Server& s3_server() {
  static S3Server server;
  return server;
}

std::unique_ptr<BlobStore> open_s3(const std::string& address) {
  Result<std::unique_ptr<BlobStore>> store = open_blob_store(address, {.clock = system_clock()});
  EXPECT_OK(store);
  return store.ok() ? std::move(store).take_value() : nullptr;
}

// Requests beside the store: what other programs do.
S3Api other_client(const std::string& address) {
  return S3Api(read_s3_settings({.address = address}, process_environment()).value(), HttpClient::open().value(),
               system_clock());
}

std::string current_bucket;

BlobSuiteCase s3_case(const std::string& name, const std::string& prefix) {
  std::string place = prefix.empty() ? "" : "/" + encode_percent(prefix, "/") + "/";
  auto open_again = [place] { return open_s3(s3_server().address(current_bucket + place, "timeout=60s")); };
  return {.name = name,
          .make =
              [open_again] {
                current_bucket = s3_server().new_bucket();
                return open_again();
              },
          .open_again = open_again,
          .secret = "geheim",
          .versions_by_content = true,
          .binary_keys = false,
          .control_keys = false,
          .longest_key = 1024 - (prefix.empty() ? 0 : prefix.size() + 1),
          .many_keys = 2500,
          .rounds = 10};
}

INSTANTIATE_TEST_SUITE_P(S3, BlobStoreTest, ::testing::Values(s3_case("bucket", ""), s3_case("prefix", "agents/a b")),
                         name_of_case);

TEST(S3Blobs, AWrongSecretOrAccessKeyIsDeniedWithoutBeingNamed) {
  std::string bucket = s3_server().new_bucket();
  std::string endpoint = fmt::format("@{}?endpoint=http://127.0.0.1:{}", bucket, s3_server().port());
  for (const std::string& login : {fmt::format("{}:falsch", S3Server::kAccessKey), std::string("FALSCHERKEY:falsch")}) {
    auto store = open_s3("s3://" + login + endpoint);
    for (const Error& error : {store->get("a").error(), store->put("a", as_bytes("x")).error(), store->list({}).error(),
                               store->find("a").error()}) {
      EXPECT_EQ(error.code(), Code::kDenied) << error.message();
      for (const char* secret : {"falsch", "FALSCH", S3Server::kAccessKey}) {
        EXPECT_EQ((error.message() + error.hint()).find(secret), std::string::npos) << error.message();
      }
    }
  }
}

TEST(S3Blobs, AMissingBucketIsSaidByEveryCall) {
  auto store = open_s3(s3_server().address("no-such-bucket"));
  for (const Error& error : {store->get("a").error(), store->put("a", as_bytes("x")).error(), store->list({}).error(),
                             store->find("a").error(), store->remove("a").error()}) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_NE(error.message().find("NoSuchBucket"), std::string::npos) << error.message();
  }
}

TEST(S3Blobs, AnObjectIsPlainForOtherClients) {
  std::string address = s3_server().address(s3_server().new_bucket() + "/p");
  auto store = open_s3(address);
  S3Api other = other_client(address);
  ASSERT_OK(store->put("notes/today", as_bytes("hello")));
  EXPECT_EQ(other.send({.method = "GET", .key = "notes/today"}, other.deadline_for(0)).value().http.body, "hello");
  // Objects that are no blobs: a sign of a directory, as web consoles make it, and empty components.
  for (const char* key : {"dir/", "a//b", "x"}) {
    EXPECT_TRUE(
        other.send({.method = "PUT", .key = key, .body = as_bytes("1")}, other.deadline_for(0)).value().is_success());
  }
  auto page = store->list({});
  ASSERT_OK(page);
  ASSERT_EQ(page->blobs.size(), 2U);
  EXPECT_EQ(page->blobs[0].key, "notes/today");
  EXPECT_EQ(page->blobs[1].key, "x");
}

TEST(S3Blobs, ALargePutGoesUpInPartsAndIsReadInPieces) {
  std::string address = s3_server().address(s3_server().new_bucket(), "part=5&timeout=60s");
  auto store = open_s3(address);
  std::string large(std::size_t{37} << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761U >> 13);
  auto info = store->put("large", as_bytes(large), {.ttl = std::chrono::hours(1)});
  ASSERT_OK(info);
  EXPECT_NE(info->version.find("-8@"), std::string::npos) << "eight parts: " << info->version;
  auto blob = store->get("large");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_TRUE((*blob)->content == large);
  EXPECT_EQ((*blob)->info.version, info->version);
  EXPECT_TRUE((*blob)->info.expires);
  // The condition decides also for large ones.
  EXPECT_EQ(error_of(store->put("large", as_bytes(large), {.if_absent = true})), Code::kExists);
  ASSERT_OK(store->put("large", as_bytes("small"), {.if_match = info->version}));
  EXPECT_EQ(error_of(store->put("large", as_bytes(large), {.if_match = info->version})), Code::kConflict);
}

TEST(S3Blobs, WhatHasExpiredLosesItsContent) {
  std::string bucket = s3_server().new_bucket();
  auto store = open_s3(s3_server().address(bucket));
  S3Api other = other_client(s3_server().address(bucket));
  ASSERT_OK(store->put("short", as_bytes("content"), {.ttl = milliseconds(1)}));
  auto page = store->list({});
  while (page.ok() && !page->blobs.empty()) page = store->list({});
  ASSERT_OK(page);
  EXPECT_EQ(*other.send({.method = "HEAD", .key = "short"}, other.deadline_for(0)).value().http.find("content-length"),
            "0");
  ASSERT_OK(store->put("short", as_bytes("again")));
  EXPECT_EQ(store->list({}).value().blobs.size(), 1U);
}

TEST(S3Blobs, AWrongClockIsCorrected) {
  FakeClock clock;  // years from the server's
  auto store =
      S3Blobs::open(
          read_s3_settings({.address = s3_server().address(s3_server().new_bucket())}, process_environment()).value(),
          clock)
          .value();
  ASSERT_OK(store->put("a", as_bytes("x"), {.ttl = std::chrono::hours(1)}));
  EXPECT_TRUE(*store->get("a")) << "by the server's time";
  auto right = open_s3(s3_server().address("bucket-1"));
  EXPECT_OK(right->list({}));
}

TEST(S3Blobs, FaultsOfTheNetworkAreBoundedAndPass) {
  std::string bucket = s3_server().new_bucket();
  FaultyProxy proxy(s3_server().port());
  auto store = open_s3(s3_server().address(bucket, "timeout=600ms", proxy.port()));
  expect_faults_are_bounded(*store, proxy);
  expect_slow_answers_are_right(*store, proxy);
}

TEST(S3Blobs, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  std::string address = s3_server().address(s3_server().new_bucket());
  expect_nothing_acknowledged_is_lost([&] { return open_s3(address); }, [&] { s3_server().kill(); },
                                      [&] { s3_server().start(); });
}

TEST(S3Blobs, ACallOutlastsAShortAbsenceOfTheServer) {
  std::string address = s3_server().address(s3_server().new_bucket(), "timeout=60s");
  auto store = open_s3(address);
  ASSERT_OK(store->put("a", as_bytes("1")));
  s3_server().kill();
  std::thread put([&] { EXPECT_OK(store->put("a", as_bytes("2"))); });
  s3_server().start();  // in the main thread: the server ends with the thread that has started it
  put.join();
  EXPECT_EQ(store->get("a").value()->content, "2");
}

TEST(S3Blobs, TwoProcessesDoNotOverwriteEachOther) {
  std::string address = s3_server().address(s3_server().new_bucket());
  expect_two_processes_count([&] { return open_s3(address); }, 50);
}

TEST(S3Blobs, CredentialsComeFromTheEnvironmentOrAProfile) {
  std::string bucket = s3_server().new_bucket();
  std::string address = fmt::format("s3://{}?endpoint=http://127.0.0.1:{}", bucket, s3_server().port());
  TempDir dir;
  std::ofstream(dir.file("credentials")) << fmt::format(
      "[default]\naws_access_key_id = x\naws_secret_access_key = y\n\n[fleet]\naws_access_key_id={}\n"
      "aws_secret_access_key={}\n",
      S3Server::kAccessKey, S3Server::kSecretKey);
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", dir.file("credentials").c_str(), 1);
  ::setenv("AWS_CONFIG_FILE", dir.file("config").c_str(), 1);
  EXPECT_EQ(error_of(open_s3(address)->list({})), Code::kDenied);
  EXPECT_OK(open_s3(address + "&profile=fleet")->list({}));
  ::setenv("AWS_ACCESS_KEY_ID", S3Server::kAccessKey, 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", S3Server::kSecretKey, 1);
  EXPECT_OK(open_s3(address)->list({}));
  for (const char* name :
       {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}) {
    ::unsetenv(name);
  }
}

}  // namespace
}  // namespace warren::testing
