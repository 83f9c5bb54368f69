#include "embed/http_embedder.h"

#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/scripted_server.h"

namespace warren {
namespace {

using std::chrono::milliseconds;
using testing::answer_with;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedAnswer;
using testing::ScriptedRequest;
using testing::ScriptedServer;

constexpr std::string_view kSecret = "sk-very-secret";

// What a strict service does: everything that is not as it must be gets status 400.
ScriptedAnswer strict_answer(const ScriptedRequest& request) {
  auto refuse = [](const std::string& why) { return answer_with(400, dump_json({{"error", {{"message", why}}}})); };
  if (!request.begins("POST /v1/embeddings HTTP/1.1\r\n")) return refuse("no such address");
  if (request.head.find(fmt::format("Authorization: Bearer {}\r\n", kSecret)) == std::string::npos) {
    return answer_with(401, R"({"error": {"message": "no key"}})");
  }
  if (request.head.find("Content-Type: application/json\r\n") == std::string::npos) return refuse("no type");
  Result<Json> body = parse_json(request.body);
  if (!body.ok()) return refuse("no JSON");
  if ((*body)["model"] != "test-model" || (*body)["encoding_format"] != "float") return refuse("no model");
  const Json& input = (*body)["input"];
  if (!input.is_array() || input.empty() || input.size() > 3) return refuse("too many texts");
  Json data = Json::array();
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (!input[i].is_string() || input[i] == "" || input[i].get<std::string>().size() > 8192) return refuse("bad text");
    const double length = static_cast<double>(input[i].get<std::string>().size());
    data.insert(data.begin(), Json{{"index", i}, {"object", "embedding"}, {"embedding", {length, 1, 0}}});  // reversed
  }
  return answer_with(200, dump_json({{"object", "list"}, {"data", data}}));
}

struct HttpFixture {
  explicit HttpFixture(ScriptedServer::Script script = strict_answer) : server(std::move(script)) {}

  std::unique_ptr<HttpEmbedder> open(milliseconds timeout = milliseconds(20'000), std::string model = "test-model") {
    return HttpEmbedder::open({.url = server.url() + "/v1/",
                               .model = std::move(model),
                               .key = std::string(kSecret),
                               .call_timeout = timeout,
                               .batch_max = 3,
                               .sleep = [this](milliseconds pause) { pauses.push_back(pause); }})
        .value();
  }

  ScriptedServer server;
  std::vector<milliseconds> pauses;
};

TEST(HttpEmbedder, VectorsComeInTheOrderOfTheTextsAndHaveLengthOne) {
  HttpFixture fixture;
  auto embedder = fixture.open();
  EXPECT_EQ(embedder->model(), "http:test-model");
  EXPECT_EQ(embedder->dimensions(), 0U);
  EXPECT_EQ(fixture.server.requests(), 0);
  const std::string long_text(100'000, 'x');
  auto vectors = embedder->embed({"a", "", "ccc", "\xFF", long_text, "bb", "1234567"}, TextRole::kPassage).value();
  ASSERT_EQ(vectors.size(), 7U);
  EXPECT_EQ(embedder->dimensions(), 3U);
  EXPECT_EQ(fixture.server.requests(), 3);
  std::vector<double> lengths;
  for (const auto& vector : vectors) {
    EXPECT_NEAR(vector[0] * vector[0] + vector[1] * vector[1], 1, 1e-6);
    lengths.push_back(std::round(vector[0] / vector[1] * 10) / 10);
  }
  EXPECT_EQ(lengths[0], 1);
  EXPECT_EQ(lengths[1], 1);  // a blank for the empty text
  EXPECT_EQ(lengths[2], 3);
  EXPECT_EQ(lengths[3], 3);  // U+FFFD for the byte
  EXPECT_EQ(std::round(lengths[4]), 8192);
  EXPECT_EQ(lengths[5], 2);
  EXPECT_EQ(lengths[6], 7);
  EXPECT_TRUE(embedder->embed({}, TextRole::kQuery).value().empty());
  EXPECT_EQ(fixture.server.requests(), 3);
}

TEST(HttpEmbedder, PromptsGoByTheModel) {
  std::mutex mutex;
  std::vector<std::string> bodies;
  HttpFixture fixture([&](const ScriptedRequest& request) {
    std::lock_guard lock(mutex);
    bodies.push_back(request.body);
    return answer_with(200, R"({"data": [{"embedding": [1, 2]}]})");
  });
  auto embedder = fixture.open(milliseconds(20'000), "nomic-embed-text");
  ASSERT_OK(embedder->embed({"x"}, TextRole::kQuery));
  ASSERT_OK(embedder->embed({"x"}, TextRole::kPassage));
  EXPECT_THAT(bodies[0], HasSubstr("\"search_query: x\""));
  EXPECT_THAT(bodies[1], HasSubstr("\"search_document: x\""));
}

TEST(HttpEmbedder, AFailureThatMayPassIsRepeatedWithPauses) {
  for (int status : {408, 429, 500, 503}) {
    int calls = 0;
    HttpFixture fixture([&](const ScriptedRequest& request) {
      return ++calls < 3 ? answer_with(status, "later") : strict_answer(request);
    });
    EXPECT_OK(fixture.open()->embed({"a"}, TextRole::kQuery));
    EXPECT_THAT(fixture.pauses, ElementsAre(milliseconds(250), milliseconds(500)));
  }
}

TEST(HttpEmbedder, ACancelledCallEndsAndIsNotRepeated) {
  std::atomic<bool> is_cancelled = false;
  HttpFixture fixture([&](const ScriptedRequest&) {
    is_cancelled = true;
    return answer_with(503, "later");
  });
  auto embedder = HttpEmbedder::open({.url = fixture.server.url() + "/v1",
                                      .model = "m",
                                      .is_cancelled = &is_cancelled,
                                      .sleep = [&](milliseconds pause) { fixture.pauses.push_back(pause); }})
                      .value();
  EXPECT_EQ(error_of(embedder->embed({"a"}, TextRole::kPassage)), Code::kUnavailable);
  EXPECT_TRUE(fixture.pauses.empty());
  EXPECT_LE(fixture.server.requests(), 2);  // curl sends one more if it learns of it only then
}

TEST(HttpEmbedder, AProbeLearnsTheDimensionAndDoesNotWaitForAServiceThatIsNotThere) {
  HttpFixture fixture;
  auto embedder = fixture.open();
  ASSERT_OK(embedder->probe());
  EXPECT_EQ(embedder->dimensions(), 3U);
  HttpFixture broken(
      [](const ScriptedRequest&) { return ScriptedAnswer{.bytes = "", .after = ScriptedAnswer::After::kClose}; });
  EXPECT_EQ(error_of(broken.open()->probe()), Code::kUnavailable);
  EXPECT_TRUE(broken.pauses.empty());
  EXPECT_EQ(error_of(broken.open()->embed({"a"}, TextRole::kQuery)), Code::kUnavailable);
  EXPECT_EQ(broken.pauses.size(), 2U);
}

TEST(HttpEmbedder, TheServiceCanAskForALongerPauseWithinALimit) {
  int calls = 0;
  HttpFixture fixture([&](const ScriptedRequest& request) {
    ++calls;
    if (calls == 1) return answer_with(429, "", "Retry-After: 2\r\n");
    if (calls == 2) return answer_with(429, "", "Retry-After: 86400\r\n");
    return strict_answer(request);
  });
  EXPECT_OK(fixture.open()->embed({"a"}, TextRole::kQuery));
  EXPECT_THAT(fixture.pauses, ElementsAre(milliseconds(2000), milliseconds(5000)));
}

TEST(HttpEmbedder, AfterThreeAttemptsItIsUnavailable) {
  HttpFixture fixture([](const ScriptedRequest&) { return answer_with(503, R"({"error": "overloaded"})"); });
  auto result = fixture.open()->embed({"a"}, TextRole::kQuery);
  ASSERT_EQ(error_of(result), Code::kUnavailable);
  EXPECT_THAT(result.error().message(), HasSubstr("503: overloaded"));
  EXPECT_EQ(fixture.server.requests(), 3);
}

TEST(HttpEmbedder, ARefusalIsNotRepeatedAndNeverShowsTheKey) {
  struct Refusal {
    int status;
    Code code;
  };
  for (Refusal refusal : {Refusal{400, Code::kInvalid}, Refusal{401, Code::kDenied}, Refusal{403, Code::kDenied},
                          Refusal{404, Code::kNotFound}, Refusal{413, Code::kTooLarge}, Refusal{301, Code::kInvalid}}) {
    HttpFixture fixture([&](const ScriptedRequest&) {
      return answer_with(refusal.status, R"({"error": {"message": "no \u001b[31m"}})");
    });
    auto result = fixture.open()->embed({"a"}, TextRole::kQuery);
    ASSERT_EQ(error_of(result), refusal.code) << refusal.status;
    EXPECT_THAT(result.error().message(), HasSubstr("no \\x1b[31m"));
    EXPECT_THAT(result.error().message() + result.error().hint(), Not(HasSubstr(std::string(kSecret))));
    EXPECT_EQ(fixture.server.requests(), 1);
  }
}

TEST(HttpEmbedder, AWrongAnswerIsAnErrorThatSaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> answers{
      {"", "not JSON"},
      {"[]", "no list \"data\""},
      {"{}", "no list \"data\""},
      {R"({"data": 5})", "no list \"data\""},
      {R"({"data": [{"embedding": [1]}]})", "1 vectors for 2 texts"},
      {R"({"data": [{"embedding": [1]}, {"embedding": [1]}, {"embedding": [1]}]})", "3 vectors for 2 texts"},
      {R"({"data": [5, 5]})", "not an object"},
      {R"({"data": [{}, {}]})", "no list \"embedding\""},
      {R"({"data": [{"embedding": "AACAPw=="}, {"embedding": [1]}]})", "no list \"embedding\""},
      {R"({"data": [{"embedding": []}, {"embedding": []}]})", "0 numbers"},
      {R"({"data": [{"embedding": [1, null]}, {"embedding": [1, 2]}]})", "not a number"},
      {R"({"data": [{"embedding": [0, 0]}, {"embedding": [1, 2]}]})", "zero"},
      {R"({"data": [{"embedding": [1e300, 0]}, {"embedding": [1, 2]}]})", "not finite"},
      {R"({"data": [{"embedding": [1]}, {"embedding": [1, 2]}]})", "different lengths"},
      {R"({"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]})", "twice"},
      {R"({"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]})", "index"},
      {R"({"data": [{"index": 0, "embedding": [1]}, {"index": -1, "embedding": [1]}]})", "index"}};
  for (const auto& [body, message] : answers) {
    SCOPED_TRACE(body);
    HttpFixture fixture([&](const ScriptedRequest&) { return answer_with(200, body); });
    auto result = fixture.open()->embed({"a", "b"}, TextRole::kQuery);
    ASSERT_EQ(error_of(result), Code::kUnavailable);
    EXPECT_THAT(result.error().message(), HasSubstr(message));
  }
}

TEST(HttpEmbedder, TheDimensionsNeverChange) {
  int calls = 0;
  HttpFixture fixture([&](const ScriptedRequest&) {
    return answer_with(200,
                       ++calls == 1 ? R"({"data": [{"embedding": [1, 2]}]})" : R"({"data": [{"embedding": [1]}]})");
  });
  auto embedder = fixture.open();
  ASSERT_OK(embedder->embed({"a"}, TextRole::kQuery));
  auto result = embedder->embed({"a"}, TextRole::kQuery);
  ASSERT_EQ(error_of(result), Code::kUnavailable);
  EXPECT_THAT(result.error().message(), HasSubstr("earlier ones had 2"));
  EXPECT_EQ(embedder->dimensions(), 2U);
}

TEST(HttpEmbedder, ASlowOrBrokenServiceIsUnavailable) {
  HttpFixture slow([](const ScriptedRequest&) {
    return ScriptedAnswer{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
                          .after = ScriptedAnswer::After::kHang};
  });
  EXPECT_EQ(error_of(slow.open(milliseconds(100))->embed({"a"}, TextRole::kQuery)), Code::kUnavailable);
  HttpFixture broken([](const ScriptedRequest&) {
    return ScriptedAnswer{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
                          .after = ScriptedAnswer::After::kClose};
  });
  EXPECT_EQ(error_of(broken.open()->embed({"a"}, TextRole::kQuery)), Code::kUnavailable);
  HttpFixture large([](const ScriptedRequest&) {
    return ScriptedAnswer{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"};
  });
  EXPECT_EQ(error_of(large.open()->embed({"a"}, TextRole::kQuery)), Code::kTooLarge);
  EXPECT_EQ(large.server.requests(), 1);
}

TEST(HttpEmbedder, AddressAndModelAreChecked) {
  EXPECT_EQ(error_of(HttpEmbedder::open({.url = "localhost", .model = "m"})), Code::kInvalid);
  EXPECT_EQ(error_of(HttpEmbedder::open({.url = "file:///etc/passwd", .model = "m"})), Code::kInvalid);
  EXPECT_EQ(error_of(HttpEmbedder::open({.url = "http://localhost/v1", .model = ""})), Code::kInvalid);
}

}  // namespace
}  // namespace warren
