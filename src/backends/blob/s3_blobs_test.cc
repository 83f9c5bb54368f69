// The S3 store against servers that answer what real ones rarely do. tests/backends/s3_blobs_test.cc has a real one.
#include "backends/blob/s3_blobs.h"

#include <atomic>
#include <fstream>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/scripted_server.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

FakeClock& s3_clock() {
  static FakeClock clock;
  return clock;
}

// Counts requests by their beginnings, and remembers them.
struct Seen {
  std::mutex mutex;
  std::vector<ScriptedRequest> requests;

  void add(const ScriptedRequest& request) {
    std::lock_guard lock(mutex);
    requests.push_back(request);
  }
  int count(std::string_view text) {
    std::lock_guard lock(mutex);
    int found = 0;
    for (const ScriptedRequest& request : requests) found += request.head.find(text) != std::string::npos ? 1 : 0;
    return found;
  }
};

std::unique_ptr<S3Blobs> open_scripted(const ScriptedServer& server, milliseconds timeout = milliseconds(5000),
                                       std::optional<bool> conditional = true) {
  S3Settings settings{.bucket = "b", .endpoint = server.url(), .scope = {.region = "eu-1"}};
  settings.credentials = {.access_key = "ACCESSKEY", .secret_key = "SECRETKEY", .session_token = "TOKEN"};
  settings.timeout = timeout;
  settings.first_pause = milliseconds(1);
  settings.part_bytes = 1000;
  settings.conditional = conditional;
  return S3Blobs::open(std::move(settings), s3_clock()).value();
}

std::string error_body(std::string_view code, std::string_view message) {
  return fmt::format("<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>{}</Message></Error>", code, message);
}

TEST(S3Scripted, RequestsAreSignedWithTheSessionToken) {
  Seen seen;
  ScriptedServer server([&](const ScriptedRequest& request) {
    seen.add(request);
    return answer_with(200, "", "ETag: \"e1\"\r\n");
  });
  auto info = open_scripted(server)->put("a b/\xC3\xA4+", as_bytes("hello"));
  ASSERT_OK(info);
  EXPECT_EQ(info->version, "e1");
  EXPECT_TRUE(seen.requests[0].begins("PUT /b/a%20b/%C3%A4%2B HTTP/1.1\r\n")) << seen.requests[0].head;
  EXPECT_EQ(seen.count("x-amz-security-token: TOKEN\r\n"), 1);
  EXPECT_EQ(seen.count("x-amz-content-sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\r\n"),
            1);
  EXPECT_EQ(seen.count("/eu-1/s3/aws4_request, SignedHeaders=content-type;host;"), 1);
  EXPECT_EQ(seen.count("SECRETKEY"), 0);
}

TEST(S3Scripted, ABusyServerIsAskedAgainWithinTheTime) {
  std::atomic<int> count = 0;
  ScriptedServer server([&](const ScriptedRequest&) {
    switch (++count) {
      case 1: return answer_with(503, error_body("SlowDown", "Reduce your request rate"));
      case 2: return answer_with(500, "<html>no xml");
      case 3: return answer_with(429, "");
      case 4: return answer_with(400, error_body("RequestTimeout", "idle"));
      case 5: return ScriptedAnswer{"", ScriptedAnswer::After::kClose};
      default: return answer_with(200, "", "ETag: \"e1\"\r\n");
    }
  });
  EXPECT_OK(open_scripted(server)->put("a", as_bytes("x")));
  EXPECT_EQ(count, 6);

  ScriptedServer always([&](const ScriptedRequest&) { return answer_with(503, error_body("SlowDown", "later")); });
  auto store = open_scripted(always, milliseconds(100));
  auto got = store->get("a");
  ASSERT_EQ(error_of(got), Code::kUnavailable);
  EXPECT_EQ(got.error().message(), "s3://b: later (SlowDown)");
  EXPECT_GT(always.requests(), 2);
}

TEST(S3Scripted, RefusalsAreNotRepeated) {
  ScriptedServer server([&](const ScriptedRequest&) { return answer_with(403, error_body("AccessDenied", "no")); });
  auto store = open_scripted(server);
  EXPECT_EQ(error_of(store->get("a")), Code::kDenied);
  EXPECT_EQ(error_of(store->put("a", as_bytes("x"))), Code::kDenied);
  EXPECT_EQ(error_of(store->list({})), Code::kDenied);
  EXPECT_EQ(server.requests(), 3);
}

TEST(S3Scripted, ErrorsAreInOurWordsAndWithoutKeys) {
  struct Row {
    int status;
    const char* code;
    Code expected;
  };
  for (const Row& row : {Row{404, "NoSuchBucket", Code::kNotFound}, Row{403, "SignatureDoesNotMatch", Code::kDenied},
                         Row{400, "EntityTooLarge", Code::kTooLarge}, Row{400, "KeyTooLongError", Code::kNameTooLong},
                         Row{501, "NotImplemented", Code::kUnsupported}, Row{507, "", Code::kNoSpace},
                         Row{301, "PermanentRedirect", Code::kInvalid}, Row{400, "InvalidArgument", Code::kInvalid}}) {
    ScriptedServer server([&](const ScriptedRequest&) {
      return answer_with(row.status, error_body(row.code, "ACCESSKEY SECRETKEY TOKEN\n\x7f text"),
                         "x-amz-bucket-region: us-west-9\r\n");
    });
    auto put = open_scripted(server)->put("a", as_bytes("x"));
    ASSERT_EQ(error_of(put), row.expected) << row.code;
    EXPECT_THAT(put.error().message(), HasSubstr(row.code));
    EXPECT_THAT(put.error().hint(), HasSubstr("region=us-west-9"));
    for (const char* secret : {"ACCESSKEY", "SECRETKEY", "TOKEN", "\n"}) {
      EXPECT_THAT(put.error().message(), Not(HasSubstr(secret)));
    }
  }
}

TEST(S3Scripted, HostileListingsAreSurvived) {
  std::string body;
  ScriptedServer server([&](const ScriptedRequest&) { return answer_with(200, body); });
  auto store = open_scripted(server, milliseconds(300));
  auto page_of = [&](const std::string& inner) {
    body = "<ListBucketResult>" + inner + "</ListBucketResult>";
    return store->list({});
  };
  for (const char* text :
       {"", "<", "<html/>", "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult>&a;</ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    body = text;
    EXPECT_EQ(error_of(store->list({})), Code::kCorrupt) << text;
  }
  // Keys that are none, sizes and dates that are none, a key twice: nothing of it breaks us.
  auto page = page_of(
      "<Contents><Key>../etc</Key></Contents><Contents><Key></Key></Contents><Contents><Key>a//b</Key></Contents>"
      "<Contents><Key>ok</Key><Size>-5</Size><LastModified>yesterday</LastModified><ETag></ETag></Contents>"
      "<Contents><Size>1</Size></Contents><CommonPrefixes><Prefix>/</Prefix></CommonPrefixes>"
      "<CommonPrefixes/><Contents><Key>.warren-s3-ttl/x</Key></Contents>");
  ASSERT_OK(page);
  ASSERT_EQ(page->blobs.size(), 1U);
  EXPECT_EQ(page->blobs[0].key, "ok");
  EXPECT_TRUE(page->folders.empty());
}

TEST(S3Scripted, KeysInListingsAreDecoded) {
  ScriptedServer server([&](const ScriptedRequest& request) {
    if (request.head.find("warren-s3-ttl") != std::string::npos) return answer_with(200, "<ListBucketResult/>");
    return answer_with(200,
                       "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a+b%2B%3C%2F%C3%A4</Key>"
                       "<Size>5</Size><LastModified>2024-02-29T12:00:00.5Z</LastModified><ETag>&quot;e&quot;</ETag>"
                       "</Contents></ListBucketResult>");
  });
  auto page = open_scripted(server)->list({});
  ASSERT_OK(page);
  ASSERT_EQ(page->blobs.size(), 1U);
  EXPECT_EQ(page->blobs[0].key, "a b+</\xC3\xA4");
  EXPECT_EQ(page->blobs[0].size, 5U);
  EXPECT_EQ(page->blobs[0].version, "e");
  EXPECT_EQ(page->blobs[0].modified, (Timestamp{.seconds = 1709208000, .nanoseconds = 500'000'000}));
}

TEST(S3Scripted, APutInPartsThatFailsIsAborted) {
  Seen seen;
  ScriptedServer server([&](const ScriptedRequest& request) {
    seen.add(request);
    if (request.begins("POST /b/a?uploads=")) {
      return answer_with(200,
                         "<InitiateMultipartUploadResult><UploadId>u&amp;1</UploadId></InitiateMultipartUploadResult>");
    }
    if (request.head.find("partNumber=2") != std::string::npos)
      return answer_with(403, error_body("AccessDenied", "no"));
    return answer_with(200, "", "ETag: \"p\"\r\n");
  });
  EXPECT_EQ(error_of(open_scripted(server)->put("a", as_bytes(std::string(2500, 'x')))), Code::kDenied);
  EXPECT_EQ(seen.count("partNumber=3"), 0);
  EXPECT_EQ(seen.count("DELETE /b/a?uploadId=u%261 "), 1);
}

// A server with one object, whose PUT loses its answer, and which ignores or understands conditions.
TEST(S3Scripted, AConditionalPutThatMeetsItselfHasHappened) {
  std::mutex mutex;
  std::string nonce;
  ScriptedServer server([&](const ScriptedRequest& request) {
    std::lock_guard lock(mutex);
    std::size_t at = request.head.find("x-amz-meta-warren-put: ");
    if (request.begins("PUT") && nonce.empty()) {
      nonce = request.head.substr(at + 23, 16);
      return ScriptedAnswer{"", ScriptedAnswer::After::kClose};
    }
    if (request.begins("PUT")) return answer_with(412, error_body("PreconditionFailed", ""));
    return answer_with(200, "", fmt::format("ETag: \"e1\"\r\nx-amz-meta-warren-put: {}\r\n", nonce));
  });
  auto store = open_scripted(server);
  auto info = store->put("a", as_bytes("x"), {.if_absent = true});
  ASSERT_OK(info);
  EXPECT_EQ(info->version, "e1");
  EXPECT_EQ(error_of(store->put("a", as_bytes("y"), {.if_absent = true})), Code::kExists);
  EXPECT_EQ(error_of(store->put("a", as_bytes("y"), {.if_match = "e0"})), Code::kConflict);
}

TEST(S3Scripted, AServerThatIgnoresConditionsIsFoundOut) {
  Seen seen;
  ScriptedServer server([&](const ScriptedRequest& request) {
    seen.add(request);
    return answer_with(200, "", "ETag: \"e1\"\r\n");
  });
  auto store = open_scripted(server, milliseconds(5000), std::nullopt);
  EXPECT_FALSE(store->abilities().conditional_puts);
  EXPECT_EQ(seen.count("PUT /b/.warren-s3-probe-"), 1);
  EXPECT_EQ(seen.count("DELETE /b/.warren-s3-probe-"), 1);
  EXPECT_EQ(error_of(store->put("a", as_bytes("x"), {.if_absent = true})), Code::kUnsupported);
  EXPECT_EQ(error_of(store->put("a", as_bytes("x"), {.if_match = "e1"})), Code::kUnsupported);
  EXPECT_EQ(seen.count("PUT /b/a "), 0);
  EXPECT_OK(store->put("a", as_bytes("x")));
  EXPECT_EQ(seen.count("warren-s3-probe-"), 2) << "it is asked once";
}

TEST(S3Scripted, AServerWithoutRangesIsReadAllTheSame) {
  ScriptedServer server([](const ScriptedRequest&) { return answer_with(200, "0123456789", "ETag: \"e\"\r\n"); });
  auto blob = open_scripted(server)->get_range("a", 3, 4);
  ASSERT_OK(blob);
  EXPECT_EQ((*blob)->content, "3456");
  EXPECT_EQ((*blob)->info.size, 10U);
}

TEST(S3Scripted, AnAnswerWithTheWrongLengthIsCorrupt) {
  ScriptedServer server([](const ScriptedRequest&) {
    return answer_with(206, "0123", "ETag: \"e\"\r\nContent-Range: bytes 0-9/10\r\n");
  });
  EXPECT_EQ(error_of(open_scripted(server)->get("a")), Code::kCorrupt);
}

TEST(S3Settings, AnAddressHasItsParts) {
  std::map<std::string, std::string> variables = {{"AWS_ACCESS_KEY_ID", "AK"}, {"AWS_SECRET_ACCESS_KEY", "SK"}};
  Environment environment = [&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  S3Settings amazon = read_s3_settings({.address = "s3://bucket/a%20b/c/?region=eu-west-1"}, environment).value();
  EXPECT_EQ(amazon.endpoint, "https://s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(amazon.host(), "bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(amazon.prefix, "a b/c/");
  EXPECT_EQ(amazon.path_of("x y"), "/a%20b/c/x%20y");
  EXPECT_EQ(amazon.path_of(""), "/");
  EXPECT_EQ(amazon.credentials.secret_key, "SK");
  EXPECT_EQ(amazon.conditional, true);

  S3Settings own =
      read_s3_settings({.address = "s3://bucket?endpoint=http://Host:80&timeout=2s&part=5&conditional=no&ttl=no"},
                       environment)
          .value();
  EXPECT_EQ(own.host(), "host");
  EXPECT_EQ(own.path_of("x"), "/bucket/x");
  EXPECT_EQ(own.timeout, milliseconds(2000));
  EXPECT_EQ(own.part_bytes, std::uint64_t{5} << 20);
  EXPECT_EQ(own.conditional, false);
  EXPECT_FALSE(own.ttl);
  EXPECT_EQ(read_s3_settings({.address = "s3://bucket?endpoint=http://h:90&path_style=no"}, environment).value().host(),
            "bucket.h:90");

  for (const char* bad :
       {"s3://", "s3:///x", "s3://a,b", "s3://b:80", "s3://b/../x", "s3://b?endpoint=h", "s3://b?endpoint=ftp://h",
        "s3://b?endpoint=http://h/path", "s3://b?endpoint=http://u:p@h", "s3://b?timeout=0", "s3://b?part=1",
        "s3://b?ttl=maybe", "s3://b?region=a/b", "s3://b?unknown=1", "s3://K@b", "s3://b?profile=none"}) {
    EXPECT_EQ(error_of(read_s3_settings({.address = bad}, environment)), Code::kInvalid) << bad;
  }
  variables.clear();
  auto none = read_s3_settings({.address = "s3://bucket"}, environment);
  ASSERT_EQ(error_of(none), Code::kInvalid);
  EXPECT_THAT(none.error().hint(), HasSubstr("AWS_ACCESS_KEY_ID"));
}

TEST(S3Settings, ProfilesComeFromAwsFiles) {
  TempDir dir;
  std::ofstream(dir.file("credentials"))
      << "# comment\n[default]\naws_access_key_id = D\naws_secret_access_key=DS\r\n\n"
         "[ fleet ]\naws_access_key_id=F\naws_secret_access_key = F=S \n"
         "aws_session_token=T\n[half]\naws_access_key_id=H\n";
  std::ofstream(dir.file("config")) << "[profile fleet]\nregion = eu-3\n[default]\nregion=eu-2\n";
  std::map<std::string, std::string> variables = {{"AWS_SHARED_CREDENTIALS_FILE", dir.file("credentials")},
                                                  {"AWS_CONFIG_FILE", dir.file("config")}};
  Environment environment = [&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  S3Settings plain = read_s3_settings({.address = "s3://bucket"}, environment).value();
  EXPECT_EQ(plain.credentials.access_key, "D");
  EXPECT_EQ(plain.credentials.secret_key, "DS");
  EXPECT_EQ(plain.scope.region, "eu-2");
  S3Settings fleet = read_s3_settings({.address = "s3://bucket?profile=fleet"}, environment).value();
  EXPECT_EQ(fleet.credentials.secret_key, "F=S");
  EXPECT_EQ(fleet.credentials.session_token, "T");
  EXPECT_EQ(fleet.scope.region, "eu-3");
  auto half = read_s3_settings({.address = "s3://bucket?profile=half"}, environment);
  ASSERT_EQ(error_of(half), Code::kInvalid);
  EXPECT_THAT(half.error().message(), HasSubstr("'half'"));
}

TEST(S3Api, DatesAreParsed) {
  EXPECT_EQ(parse_http_date("Fri, 24 May 2013 00:00:00 GMT"), (Timestamp{.seconds = 1369353600}));
  EXPECT_EQ(parse_iso_date("2013-05-24T00:00:00Z"), (Timestamp{.seconds = 1369353600}));
  EXPECT_EQ(parse_iso_date("2013-05-24T00:00:00.123456Z"),
            (Timestamp{.seconds = 1369353600, .nanoseconds = 123'456'000}));
  for (const char* bad : {"", "x", "Fri, 24 Foo 2013 00:00:00 GMT", "Fri, xx May 2013 00:00:00 GMT"}) {
    EXPECT_EQ(parse_http_date(bad), std::nullopt) << bad;
  }
  for (const char* bad : {"", "x", "2013-05-24 00:00:00Z", "20x3-05-24T00:00:00Z"}) {
    EXPECT_EQ(parse_iso_date(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace warren::testing
