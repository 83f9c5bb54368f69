#include "backends/vector/vector_service.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/vector/open_vector_index.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/scripted_server.h"

namespace warren {
namespace {

using testing::answer_with;
using testing::error_of;
using testing::ScriptedRequest;
using testing::ScriptedServer;

const std::vector<std::string> kServiceForms{"chroma://127.0.0.1:{}/abc", "pinecone://:key@127.0.0.1:{}/abc?tls=no",
                                             "weaviate://127.0.0.1:{}/Abc"};

std::unique_ptr<VectorIndex> open_service(const std::string& form, std::uint16_t port) {
  static SystemClock clock;
  return open_vector_index(fmt::format(fmt::runtime(form), port), {.clock = clock}).value();
}

// Whatever a server sends, a call returns.
TEST(VectorService, AnAnswerOfAnyShapeIsAnAnswerOrAnError) {
  const std::vector<std::string> shapes{
      "",
      "[]",
      "5",
      "\"x\"",
      "null",
      "[5]",
      "[[5]]",
      "{}",
      R"({"id": 5, "ids": 5, "distances": 5, "metadatas": 5, "configuration_json": 5})",
      R"({"id": "x", "ids": [5], "distances": [5], "embeddings": [5], "metadatas": [5]})",
      R"({"id": "x", "ids": [["a"]], "distances": [["a"]], "metadatas": [["a"]]})",
      R"({"matches": 5, "vectors": 5, "namespaces": 5, "metric": 5, "dimension": "x", "pagination": 5})",
      R"({"matches": [5], "vectors": [5], "namespaces": {"abc": 5}, "pagination": {"next": 5}})",
      R"({"matches": [{"id": "a", "score": 1, "metadata": 5}], "vectors": {"a": 5}, "namespaces": {"abc": {"vectorCount": "x"}}})",
      R"({"properties": [{"name": "warren_id"}], "vectorIndexConfig": {"distance": "cosine"}, "data": 5, "objects": 5})",
      R"({"properties": [{"name": "warren_id"}], "vectorIndexConfig": {"distance": "cosine"}, "vector": [1, 2],
          "data": {"Get": 5, "Aggregate": {"Abc": 5}}, "objects": [5]})",
      R"({"properties": [{"name": "warren_id"}], "vectorIndexConfig": {"distance": "cosine"}, "vector": "x",
          "data": {"Get": {"Abc": [5]}, "Aggregate": {"Abc": [5]}}, "objects": [{"vector": [1, 2]}]})",
      R"({"properties": [{"name": "warren_id"}, 5], "vectorIndexConfig": {"distance": "cosine"}, "errors": 5,
          "objects": [{"vector": [1, 2]}]})"};
  for (const std::string& form : kServiceForms) {
    for (const std::string& shape : shapes) {
      SCOPED_TRACE(form + " " + shape);
      ScriptedServer server([&](const ScriptedRequest&) { return answer_with(200, shape); });
      auto index = open_service(form, server.port());
      VectorItem item{.id = "a", .embedding = {1, 2}, .text = "t", .metadata = {{"k", "v"}}};
      for (std::optional<Code> code :
           {error_of(index->upsert(std::vector{item})), error_of(index->get("a")),
            error_of(index->query({.embedding = {1, 2}, .top_k = 3, .filter = {}})), error_of(index->remove("a")),
            error_of(index->count()), error_of(index->list({}))}) {
        EXPECT_TRUE(!code || *code == Code::kUnavailable || *code == Code::kUnsupported) << name_of(*code);
      }
    }
  }
}

TEST(VectorService, WeaviateSaysWhatIsWrongWithAClassThatExists) {
  for (const char* made : {R"({"properties": [{"name": "title"}], "vectorIndexConfig": {"distance": "cosine"}})",
                           R"({"properties": [{"name": "warren_id"}], "vectorIndexConfig": {"distance": "dot"}})",
                           R"({"properties": [{"name": "warren_id"}], "vectorConfig": {"title": {}}})",
                           R"({"properties": [{"name": "warren_id"}], "vectorIndexConfig": {"distance": "cosine"},
            "multiTenancyConfig": {"enabled": true}})"}) {
    ScriptedServer server([&](const ScriptedRequest&) { return answer_with(200, made); });
    auto index = open_service("weaviate://127.0.0.1:{}/Abc", server.port());
    Result<std::uint64_t> count = index->count();
    EXPECT_EQ(error_of(count), Code::kUnsupported) << made;
    EXPECT_NE(count.error().message().find("not made by Warren"), std::string::npos) << count.error().message();
  }
}

}  // namespace
}  // namespace warren
