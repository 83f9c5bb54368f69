// What agents get by their requests, whatever these are.
#include "host/requests.h"

#include <sys/stat.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "store/store.h"
#include "testing/matchers.h"
#include "testing/mutations.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

constexpr std::string_view kSecret = "nobody else reads this";

class RequestsTest : public ::testing::Test {
 protected:
  RequestsTest() {
    EXPECT_OK(make_host_dirs(dir_.file("agents"), 0700));
    EXPECT_OK(TrustFile(dir_.file("trust")).change([&](TrustState& state) {
      return state.add_key(issuer_.public_key(), {});
    }));
    add_agent("owner", TrustLevel::kTrusted, {"/mem/semantic/public:read"});
    add_agent("peer", TrustLevel::kTrusted, {});
  }

  void add_agent(const std::string& id, TrustLevel level, std::vector<std::string> scopes) {
    Manifest manifest;
    manifest.identity = id;
    manifest.key = Ed25519Private::generate().public_key();
    manifest.issued_at = clock_.now().seconds;
    manifest.expires_at = manifest.issued_at + 100'000;
    manifest.level = level;
    manifest.scopes = std::move(scopes);
    manifest.sign(issuer_);
    EXPECT_OK(TrustFile(dir_.file("trust")).change([&](TrustState& state) -> Status {
      WARREN_TRY(state.accept(manifest, manifest.issued_at));
      return Ok{};
    }));
    StoreOptions fresh{.mode = OpenMode::kCreate};
    EXPECT_OK(Store::open(dir_.file("agents/" + id + ".db"), fresh, clock_));
    clients_[id] = {.agent = id, .key = manifest.key};
  }

  Result<Frame> ask(const std::string& agent, Json head, std::string body = {}) {
    return requests_.run(clients_[agent], {.head = std::move(head), .body = std::move(body)});
  }

  testing::TempDir dir_;
  SystemClock clock_;
  Ed25519Private issuer_ = Ed25519Private::generate();
  LiveTrust trust_{TrustFile(dir_.file("trust"))};
  ServedAgents agents_{dir_.file("agents"), {}, {}, clock_};
  Requests requests_{agents_, trust_, kTrustThreshold, clock_};
  std::map<std::string, HostClientIdentity> clients_;
};

TEST_F(RequestsTest, NoMutationOfARequestReadsOrChangesWhatIsNotShared) {
  ASSERT_OK(ask("owner", {{"op", "write"}, {"path", "/mem/semantic/secret"}}, std::string(kSecret)));
  std::string item = fmt::format(R"({{"text": "{}", "embedding": [1, 0], "metadata": {{"tags": "a"}}}})", kSecret);
  ASSERT_OK(ask("owner", {{"op", "write"}, {"path", "/mem/semantic/secret.json"}}, item));
  ASSERT_OK(ask("owner", {{"op", "write"}, {"path", "/mem/semantic/public/open"}}, "shared"));
  ASSERT_OK(ask("peer", {{"op", "read"}, {"path", "/agent/owner/mem/semantic/public/open"}}));
  const std::vector<std::string> valid{
      R"({"op": "read", "path": "/agent/owner/mem/semantic/public/open", "offset": 0, "length": 10})",
      R"({"op": "read", "path": "/agent/owner/mem/semantic/public/../secret"})",
      R"({"op": "write", "path": "/agent/owner/mem/semantic/secret", "ttl_ms": 10, "as_is": true})",
      R"({"op": "append", "path": "/agent/owner/mem/semantic/secret", "as_is": true})",
      R"({"op": "list", "path": "/agent/owner/mem/semantic/public"})",
      R"({"op": "stat", "path": "/agent/owner/mem/semantic/public/open"})",
      R"({"op": "exists", "path64": "L2FnZW50L293bmVyL21lbS9zZW1hbnRpYy9zZWNyZXQ="})",
      R"({"op": "remove", "path": "/agent/owner/mem/semantic/public", "recursive": true})",
      R"({"op": "query", "path": "/agent/owner/mem/semantic", "top_k": 5, "filter": {"tags": "a"}})"};
  testing::Mutations mutations(4);
  for (int i = 0; i < 5'000; ++i) {
    std::string text = mutations.of(valid[mutations.below(valid.size())]);
    Result<Json> head = parse_json(text);
    if (!head.ok() || !head->is_object()) continue;
    Result<Frame> answer = ask("peer", *head, i % 3 == 0 ? "[1, 0]" : "value");
    if (!answer.ok()) continue;
    EXPECT_EQ(answer->body.find(kSecret), std::string::npos) << text;
  }
  EXPECT_EQ(ask("owner", {{"op", "read"}, {"path", "/mem/semantic/secret"}})->body, kSecret);
  EXPECT_EQ(ask("owner", {{"op", "read"}, {"path", "/mem/semantic/public/open"}})->body, "shared");
}

// The rules for each name are the same for the agent itself, so it may make the link. They are not for its peers.
TEST_F(RequestsTest, ASecondNameInASharedDirectoryShowsNothingThroughAnyOperation) {
  std::string item = fmt::format(R"({{"text": "{}", "embedding": [1, 0]}})", kSecret);
  ASSERT_OK(ask("owner", {{"op", "write"}, {"path", "/mem/semantic/secret.json"}}, item));
  ASSERT_OK(ask("owner", {{"op", "write"}, {"path", "/mem/semantic/public/open.json"}},
                R"({"text": "open", "embedding": [1, 0]})"));
  std::shared_ptr<HostedAgent> owner = agents_.get("owner").take_value();
  ASSERT_OK(link(*owner->own_view(), "/mem/semantic/secret.json", "/mem/semantic/public/linked.json"));
  const std::string shared = "/agent/owner/mem/semantic/public";
  Result<Frame> queried = ask("peer", {{"op", "query"}, {"path", shared}}, "[1, 0]");
  ASSERT_OK(queried);
  EXPECT_NE(queried->body.find("open.json"), std::string::npos);
  EXPECT_EQ(queried->body.find("linked"), std::string::npos);
  EXPECT_EQ(queried->body.find(kSecret), std::string::npos);
  Result<Frame> listed = ask("peer", {{"op", "list"}, {"path", shared}});
  ASSERT_OK(listed);
  EXPECT_NE(listed->body.find("open.json"), std::string::npos);
  EXPECT_EQ(listed->body.find("linked"), std::string::npos);
  EXPECT_EQ(error_of(ask("peer", {{"op", "read"}, {"path", shared + "/linked.json"}})), Code::kNotFound);
}

// Only the dimension of what is shared may be learned.
TEST_F(RequestsTest, AQueryDoesNotTellOfItemsThatAreNotShared) {
  ASSERT_OK(ask("owner", {{"op", "write"}, {"path", "/mem/semantic/secret.json"}}, R"({"embedding": [1, 0]})"));
  ASSERT_OK(ask("owner", {{"op", "write"}, {"path", "/mem/semantic/public/open"}}, "shared"));
  Result<Frame> queried = ask("peer", {{"op", "query"}, {"path", "/agent/owner/mem/semantic/public"}}, "[1]");
  ASSERT_OK(queried);
  EXPECT_EQ(queried->body, "[]");
}

TEST_F(RequestsTest, WhatIsNestedTooDeeplyIsRefused) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const char* path : {"/mem/working/x.json", "/mem/working/x.jsonl"}) {
    EXPECT_EQ(error_of(ask("owner", {{"op", "write"}, {"path", path}}, deep)), Code::kInvalid);
    EXPECT_EQ(error_of(ask("owner", {{"op", "append"}, {"path", path}}, deep)), Code::kInvalid);
  }
  std::string item = fmt::format(R"({{"embedding": [1], "metadata": {{"a": {}}}}})", deep);
  Json head{{"op", "write"}, {"path", "/mem/semantic/deep.json"}, {"as_is", true}};
  ASSERT_OK(ask("owner", head, item));
  Result<Frame> queried = ask("owner", {{"op", "query"}, {"path", "/mem/semantic"}}, "[1]");
  ASSERT_OK(queried);
  EXPECT_EQ(queried->body, "[]");
}

// Whoever is refused gets one answer, whatever the reason is.
TEST_F(RequestsTest, WhileTrustCannotBeReadNobodyIsToldWhy) {
  ASSERT_EQ(::chmod(dir_.file("trust/trust.json").c_str(), 0666), 0);
  Result<HostClientIdentity> refused = requests_.identify("peer", {}, "challenge");
  EXPECT_EQ(error_of(refused), Code::kUnavailable);
  EXPECT_EQ(refused.error().message().find("trust.json"), std::string::npos);
  EXPECT_EQ(error_of(ask("peer", {{"op", "list"}, {"path", "/agent/owner/mem/semantic/public"}})), Code::kUnavailable);
}

}  // namespace
}  // namespace warren
