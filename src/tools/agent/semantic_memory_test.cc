// vfs_operation and semantic memory by text.
#include <algorithm>
#include <atomic>
#include <functional>

#include <gtest/gtest.h>

#include "embed/embedder.h"
#include "fs/path_ops.h"
#include "tools/schema.h"
#include "tools/tool_case_testing.h"

namespace warren {
namespace {

// Counts the letters a, b and c of a text.
class CountingEmbedder final : public Embedder {
 public:
  const std::string& model() const override { return model_; }
  std::size_t dimensions() const override { return 3; }
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole) override {
    if (before) before();
    if (is_down) return Error(Code::kUnavailable, "the service does not answer", "start it with `embed --up`");
    std::vector<std::vector<float>> vectors;
    for (std::string_view text : texts) {
      auto count = [&](char letter) { return static_cast<float>(std::count(text.begin(), text.end(), letter)) + 0.1F; };
      vectors.push_back({count('a'), count('b'), count('c')});
    }
    return vectors;
  }

  bool is_down = false;
  std::function<void()> before;

 private:
  std::string model_ = "letters";
};

class SemanticMemory : public ToolCase {
 protected:
  ToolContext context() {
    ToolContext used = ToolCase::context();
    used.is_cancelled = &is_cancelled_;
    used.open_embedder = [this]() -> Result<Embedder*> { return has_embedder_ ? &embedder_ : nullptr; };
    return used;
  }

  ToolAnswer operate(const char* operation, std::string_view path, const Json& data) {
    const Tool& tool = *find_tool("vfs_operation");
    ToolContext used = context();
    ToolAnswer answer = call_tool(used, tool, {{"operation", operation}, {"path", path}, {"data", data}});
    if (!answer.error) {
      EXPECT_EQ(find_schema_problem(tool.output_schema(), answer.structured).value_or(""), "")
          << dump_json(answer.structured);
    }
    return answer;
  }

  std::vector<std::string> found(const Json& data) {
    ToolAnswer answer = operate("query", "/mem/semantic", data);
    std::vector<std::string> paths;
    if (answer.error) return {answer.error->message};
    for (const Json& one : answer.structured["matches"]) paths.push_back(one["path"].get<std::string>());
    return paths;
  }

  CountingEmbedder embedder_;
  bool has_embedder_ = true;
  std::atomic<bool> is_cancelled_ = false;
};

using Found = std::vector<std::string>;

TEST_F(SemanticMemory, AModelWritesAndAsksInWords) {
  EXPECT_FALSE(operate("write", "/mem/semantic/a.json", {{"text", "aaaa"}, {"metadata", {{"kind", "x"}}}}).error);
  EXPECT_FALSE(operate("write", "/mem/semantic/b.json", {{"text", "bbbb"}}).error);
  EXPECT_EQ(found({{"text", "aa"}, {"top_k", 1}}), Found{"/mem/semantic/a.json"});
  EXPECT_EQ(found("bb"), (Found{"/mem/semantic/b.json", "/mem/semantic/a.json"}));
  EXPECT_EQ(found({{"text", "bb"}, {"filter", {{"kind", "x"}}}}), Found{"/mem/semantic/a.json"});
  EXPECT_EQ(found({{"embedding", {9, 0, 0}}, {"top_k", 1}}), Found{"/mem/semantic/a.json"});
  Json stored = parse_json(read_file(*view_, "/mem/semantic/a.json").value()).value();
  EXPECT_EQ(stored["embedding"].size(), 3U);
  EXPECT_EQ(stored["metadata"]["embedding_model"], "letters");
}

TEST_F(SemanticMemory, AnItemOfAnEmbedderThatIsDownIsFoundLater) {
  embedder_.is_down = true;
  ToolAnswer written = operate("write", "/mem/semantic/a.json", {{"text", "aaaa"}});
  EXPECT_FALSE(written.error);
  EXPECT_NE(written.text.find("no embedding yet"), std::string::npos) << written.text;
  ToolAnswer asked = operate("query", "/mem/semantic", {{"text", "a"}});
  ASSERT_TRUE(asked.error);
  EXPECT_EQ(asked.error->type, "unavailable");
  EXPECT_EQ(asked.error->next_action_hint.find("--"), std::string::npos);
  embedder_.is_down = false;
  EXPECT_EQ(found("a"), Found{"/mem/semantic/a.json"});
}

TEST_F(SemanticMemory, ACallThatIsCancelledWhileItWaitsForTheEmbedderWritesNothing) {
  for (bool is_down : {false, true}) {
    embedder_.is_down = is_down;
    is_cancelled_ = false;
    embedder_.before = [&] { is_cancelled_ = true; };
    ToolAnswer written = operate("write", "/mem/semantic/a.json", {{"text", "aaaa"}});
    ASSERT_TRUE(written.error);
    EXPECT_EQ(written.error->message, "the call was cancelled");
    EXPECT_FALSE(exists(*view_, "/mem/semantic/a.json").value());
  }
}

TEST_F(SemanticMemory, WithoutAnEmbedderTheHintSaysWhatIsPossible) {
  has_embedder_ = false;
  ToolAnswer written = operate("write", "/mem/semantic/a.json", {{"text", "aaaa"}});
  ASSERT_TRUE(written.error);
  EXPECT_NE(written.error->next_action_hint.find("\"embedding\""), std::string::npos);
  EXPECT_NE(written.error->next_action_hint.find("write_file"), std::string::npos);
  ToolAnswer asked = operate("query", "/mem/semantic", "a");
  ASSERT_TRUE(asked.error);
  EXPECT_EQ(asked.error->type, "unsupported");
  EXPECT_NE(asked.error->next_action_hint.find("grep"), std::string::npos);
  EXPECT_FALSE(operate("write", "/mem/semantic/a.json", {{"text", "a"}, {"embedding", {1, 0, 0}}}).error);
  EXPECT_EQ(found(Json::array({1, 0, 0})), Found{"/mem/semantic/a.json"});
}

TEST_F(SemanticMemory, QueriesForNothingAreRefusedWithAnExample) {
  for (const Json& data : {Json(nullptr), Json(7), Json::object(), Json{{"text", "a"}, {"embedding", {1, 0, 0}}}}) {
    ToolAnswer asked = operate("query", "/mem/semantic", data);
    ASSERT_TRUE(asked.error) << dump_json(data);
    EXPECT_NE(asked.error->next_action_hint.find("\"text\""), std::string::npos) << dump_json(data);
  }
}

}  // namespace
}  // namespace warren
