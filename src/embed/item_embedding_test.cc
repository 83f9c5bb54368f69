#include "embed/item_embedding.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

class LengthEmbedder final : public Embedder {
 public:
  const std::string& model() const override { return model_; }
  std::size_t dimensions() const override { return 2; }
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole) override {
    std::vector<std::vector<float>> vectors;
    for (std::string_view text : texts) vectors.push_back({0.1F, static_cast<float>(text.size())});
    return vectors;
  }

 private:
  std::string model_ = "length";
};

TEST(ItemEmbedding, OnlyATextWithoutAnEmbeddingLacksOne) {
  EXPECT_TRUE(lacks_embedding(R"({"text": "a"})"));
  for (std::string_view item : {R"({"text": "a", "embedding": [1]})", R"({"text": 5})", "{}", "[]", "5", "x", "",
                                R"({"text": "a", "embedding": null})"}) {
    EXPECT_FALSE(lacks_embedding(item)) << item;
  }
}

TEST(ItemEmbedding, AnItemGetsItsEmbeddingAndTheNameOfTheModel) {
  LengthEmbedder embedder;
  EXPECT_EQ(with_embedding(R"({"text": "abc", "own": true})", embedder).value(),
            R"({"text":"abc","own":true,"metadata":{"embedding_model":"length"},"embedding":[0.1,3.0]})");
  EXPECT_EQ(with_embedding(R"({"text": "", "metadata": {"k": 1, "embedding_model": "x"}})", embedder).value(),
            R"({"text":"","metadata":{"k":1,"embedding_model":"length"},"embedding":[0.1,0.0]})");
  EXPECT_EQ(error_of(with_embedding(R"({"text": "a", "metadata": 5})", embedder)), Code::kInvalid);
}

}  // namespace
}  // namespace warren
