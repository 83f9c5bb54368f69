// What agents get by their requests, whatever these are.
#include "host/requests.h"

#include <gtest/gtest.h>

#include "os/host_files.h"
#include "store/store.h"
#include "testing/matchers.h"
#include "testing/mutations.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

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

}  // namespace
}  // namespace warren
