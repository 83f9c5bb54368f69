#include "agent/semantic/semantic_index.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "agent/agent.h"
#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using Paths = std::vector<std::string>;

// Counts the letters a, b and c of a text.
class LetterEmbedder final : public Embedder {
 public:
  explicit LetterEmbedder(std::string model = "letters") : model_(std::move(model)) {}

  const std::string& model() const override { return model_; }
  std::size_t dimensions() const override { return 3; }
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole role) override {
    EXPECT_EQ(role, TextRole::kPassage);
    if (meanwhile) meanwhile();
    if (failure) return *failure;
    std::vector<std::vector<float>> vectors;
    for (std::string_view text : texts) {
      auto count = [&](char letter) { return static_cast<float>(std::count(text.begin(), text.end(), letter)) + 0.1F; };
      vectors.push_back({count('a'), count('b'), count('c')});
      ++embedded;
    }
    return vectors;
  }

  int embedded = 0;
  std::function<void()> meanwhile;
  std::optional<Error> failure;

 private:
  std::string model_;
};

class SemanticIndexTest : public ::testing::Test {
 protected:
  SemanticIndexTest() {
    Result<std::unique_ptr<Store>> made =
        Store::open(file(), {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_);
    EXPECT_OK(made);
    made->reset();
    agent_ = open();
    index_ = std::make_unique<SemanticIndex>(agent_->store(), agent_->fs());
  }
  std::string file() const { return dir_.path() + "/a.db"; }
  std::unique_ptr<Agent> open(OpenMode mode = OpenMode::kReadWrite) {
    Result<std::unique_ptr<Agent>> opened =
        Agent::open({.id_or_path = file(), .mode = mode, .durability = Durability::kProcess}, clock_);
    EXPECT_OK(opened);
    return std::move(opened).value();
  }
  void put(std::string_view name, const std::vector<float>& embedding, const Json& metadata = Json::object()) {
    write(name,
          format_vector_item({.id = {}, .embedding = embedding, .text = std::string(name), .metadata = metadata}));
  }
  void write(std::string_view name, std::string_view content) {
    EXPECT_OK(write_file(agent_->fs(), join_path("/mem/semantic", name), as_bytes(content)));
  }
  static Result<Paths> ask(SemanticIndex& index, const std::vector<float>& embedding, std::string_view filter = "{}",
                           std::string_view path = kSemanticMemory, std::size_t top_k = 10) {
    VectorQuery query{.embedding = embedding, .top_k = top_k, .filter = {}};
    query.filter = WARREN_TRY(parse_vector_filter(*parse_json(filter)));
    auto found = WARREN_TRY(index.query(path, query, [](const std::string&, OtherNames) { return Result(true); }));
    Paths paths;
    for (const VectorMatch& match : found) paths.push_back(match.item.id.substr(kSemanticMemory.size() + 1));
    return paths;
  }
  // Whatever dimension other items have.
  static Paths find_by_letters(SemanticIndex& index, const std::vector<float>& embedding) {
    VectorQuery query{.embedding = embedding, .top_k = 10, .filter = {}};
    auto found = index.query(
        kSemanticMemory, query, [](const std::string&, OtherNames) { return Result(true); },
        SemanticIndex::Dimension::kOfQuery);
    EXPECT_OK(found);
    Paths paths;
    for (const VectorMatch& match : *found) {
      EXPECT_EQ(match.item.metadata["embedding_model"], "letters");
      paths.push_back(match.item.id.substr(kSemanticMemory.size() + 1));
    }
    return paths;
  }
  Paths find(const std::vector<float>& embedding, std::string_view filter = "{}",
             std::string_view path = kSemanticMemory) {
    Result<Paths> found = ask(*index_, embedding, filter, path);
    EXPECT_OK(found);
    return found.ok() ? *found : Paths{};
  }
  std::vector<std::string> problems() {
    auto checked = index_->check(kSemanticMemory, [](const std::string&, OtherNames) { return Result(true); });
    EXPECT_OK(checked);
    std::vector<std::string> messages;
    for (const auto& problem : checked->problems) messages.push_back(problem.path + ": " + problem.message);
    return messages;
  }
  std::int64_t rows() {
    auto unit = agent_->fs().begin(UnitAccess::kRead);
    auto listed = VectorRows(agent_->store()).list();
    EXPECT_OK(listed);
    return static_cast<std::int64_t>(listed->size());
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<SemanticIndex> index_;
};

TEST_F(SemanticIndexTest, WrittenItemsAreFoundBestFirst) {
  put("x.json", {1, 0, 0});
  put("deep/er/xy.json", {1, 1, 0});
  put("z.json", {0, 0, 1});
  EXPECT_EQ(find({1, 0.1F, 0}), (Paths{"x.json", "deep/er/xy.json", "z.json"}));
  EXPECT_EQ(find({0, 1, 5}), (Paths{"z.json", "deep/er/xy.json", "x.json"}));
  EXPECT_EQ(*ask(*index_, {0, 0, 5}, "{}", kSemanticMemory, 1), (Paths{"z.json"}));
}

TEST_F(SemanticIndexTest, AnEmptyIndexHasNoMatches) {
  EXPECT_EQ(find({1, 2}), Paths{});
  put("a.json", {1, 2});
  EXPECT_EQ(find({1, 2}), Paths{"a.json"});
  ASSERT_OK(remove(agent_->fs(), "/mem", {.recursive = Recursive::kYes}));
  EXPECT_EQ(find({1, 2}), Paths{});
}

TEST_F(SemanticIndexTest, ChangesRenamesAndRemovalsAreFollowed) {
  put("a.json", {1, 0});
  put("b.json", {0, 1});
  EXPECT_EQ(find({1, 0}), (Paths{"a.json", "b.json"}));
  put("a.json", {-1, 0});  // in the same nanosecond, with the same size
  put("b.json", {0, 2});
  EXPECT_EQ(find({1, 0}), (Paths{"b.json", "a.json"}));
  ASSERT_OK(rename(agent_->fs(), "/mem/semantic/a.json", "/mem/semantic/c.json"));
  EXPECT_EQ(find({1, 0}), (Paths{"b.json", "c.json"}));
  ASSERT_OK(unlink(agent_->fs(), "/mem/semantic/b.json"));
  EXPECT_EQ(find({1, 0}), (Paths{"c.json"}));
  ASSERT_OK(make_dirs(agent_->fs(), "/mem/semantic/d"));
  ASSERT_OK(rename(agent_->fs(), "/mem/semantic/c.json", "/mem/semantic/d/c.json"));
  EXPECT_EQ(find({1, 0}), (Paths{"d/c.json"}));
  ASSERT_OK(rename(agent_->fs(), "/mem/semantic/d", "/mem/semantic/e"));
  EXPECT_EQ(find({1, 0}), (Paths{"e/c.json"}));
  ASSERT_OK(rename(agent_->fs(), "/mem/semantic/e", "/elsewhere"));
  EXPECT_EQ(find({1, 0}), Paths{});
  EXPECT_EQ(rows(), 0);
  ASSERT_OK(rename(agent_->fs(), "/elsewhere", "/mem/semantic/back"));
  EXPECT_EQ(find({1, 0}), (Paths{"back/c.json"}));
  ASSERT_OK(link(agent_->fs(), "/mem/semantic/back/c.json", "/mem/semantic/second.json"));
  EXPECT_EQ(find({1, 0}).size(), 2U);
  ASSERT_OK(unlink(agent_->fs(), "/mem/semantic/back/c.json"));
  EXPECT_EQ(find({1, 0}), (Paths{"second.json"}));
  EXPECT_EQ(rows(), 1);
}

TEST_F(SemanticIndexTest, AnotherConnectionsWritesAreSeen) {
  put("a.json", {1, 0});
  EXPECT_EQ(find({1, 0}), (Paths{"a.json"}));
  std::unique_ptr<Agent> other = open();
  std::string item = format_vector_item({.id = {}, .embedding = {2, 1}, .text = {}});
  ASSERT_OK(write_file(other->fs(), "/mem/semantic/b.json", as_bytes(item)));
  EXPECT_EQ(find({2, 1}), (Paths{"b.json", "a.json"}));
  ASSERT_OK(unlink(other->fs(), "/mem/semantic/a.json"));
  EXPECT_EQ(find({2, 1}), (Paths{"b.json"}));
}

TEST_F(SemanticIndexTest, WR30_RowsAreDerivedAndNotBelieved) {
  put("a.json", {1, 0});
  put("b.json", {0, 1});
  EXPECT_EQ(find({1, 0}).front(), "a.json");
  EXPECT_EQ(rows(), 2);
  Database& database = agent_->store().database();
  ASSERT_OK(database.execute("DELETE FROM wr_vector WHERE ino = (SELECT min(ino) FROM wr_vector)"));
  EXPECT_EQ(find({1, 0}), (Paths{"a.json", "b.json"}));
  SemanticIndex next(agent_->store(), agent_->fs());
  EXPECT_EQ(*ask(next, {1, 0}), (Paths{"a.json", "b.json"}));
  EXPECT_EQ(rows(), 2);
  ASSERT_OK(database.execute("UPDATE wr_vector SET embedding = x'0000c07f0000c07f'"));  // not a number
  SemanticIndex third(agent_->store(), agent_->fs());
  EXPECT_EQ(*ask(third, {1, 0}), (Paths{"a.json", "b.json"}));
}

TEST_F(SemanticIndexTest, AnExpiredItemIsNotFound) {
  put("a.json", {1, 0});
  put("b.json", {0, 1});
  ASSERT_OK(set_xattr(agent_->fs(), "/mem/semantic/a.json", kExpiryXattr, as_bytes("1700000060")));
  EXPECT_EQ(find({1, 0}), (Paths{"a.json", "b.json"}));
  clock_.advance_ns(61'000'000'000);  // nothing has been written since
  EXPECT_EQ(find({1, 0}), (Paths{"b.json"}));
}

TEST_F(SemanticIndexTest, AReadOnlyAgentIsQueriedWithoutWriting) {
  put("a.json", {1, 0});
  std::unique_ptr<Agent> reader = open(OpenMode::kReadOnly);
  SemanticIndex index(reader->store(), reader->fs());
  EXPECT_EQ(*ask(index, {1, 0}), (Paths{"a.json"}));
  EXPECT_EQ(rows(), 0);
}

TEST_F(SemanticIndexTest, TheFilterAndThePathNarrowTheResult) {
  for (int i = 0; i < 200; ++i) {
    put(fmt::format("{}/{}.json", i % 2 == 0 ? "even" : "odd", i), {1, static_cast<float>(i)}, {{"n", i}});
  }
  EXPECT_EQ(find({1, 0}, R"({"n": {"$gte": 7, "$lt": 9}})"), (Paths{"odd/7.json", "even/8.json"}));
  EXPECT_EQ(find({1, 0}, R"({"n": {"$in": [150, 3]}})"), (Paths{"odd/3.json", "even/150.json"}));
  EXPECT_EQ(find({1, 0}, "{}", "/mem/semantic/odd").front(), "odd/1.json");
  EXPECT_EQ(find({1, 0}, "{}", "/mem/semantic/odd/5.json"), (Paths{"odd/5.json"}));
  EXPECT_EQ(find({1, 0}, "{}", "/mem/semantic/od"), Paths{});
}

TEST_F(SemanticIndexTest, FilesThatAreNotItemsAreNamed) {
  put("a.json", {1, 0});
  put("b.json", {1, 1});
  write("bad.json", "{not json");
  write("short.json", R"({"embedding": [1, 2, 3]})");
  write("none.json", R"({"text": "x"})");
  write("big.json", R"({"embedding": [1e300, 1]})");
  write("zero.json", R"({"embedding": [0, 0]})");
  write("notes.txt", "not an item, and not meant to be one");
  EXPECT_EQ(find({1, 0}), (Paths{"a.json", "b.json"}));
  std::vector<std::string> named = problems();
  ASSERT_EQ(named.size(), 5U);
  EXPECT_EQ(named[1], "/mem/semantic/big.json: number 1 of the embedding is not finite");
  EXPECT_EQ(named[2], "/mem/semantic/none.json: not an item: it has no member 'embedding'");
  EXPECT_EQ(named[3], "/mem/semantic/short.json: the embedding has 3 numbers, but those of this index have 2");
  EXPECT_EQ(named[4], "/mem/semantic/zero.json: the embedding is all zeros, so it has no direction to compare");
  EXPECT_EQ(error_of(ask(*index_, {1, 2, 3})), Code::kInvalid);
  write("bad.json", R"({"embedding": [5, 5]})");  // mended
  EXPECT_EQ(problems().size(), 4U);
}

TEST_F(SemanticIndexTest, AWriteIsCheckedAgainstTheIndex) {
  auto check = [&](std::string_view path, std::string_view data) { return error_of(index_->check_write(path, data)); };
  std::optional<Code> fine;
  EXPECT_EQ(check("/mem/semantic/a.json", R"({"embedding": [1, 2]})"), fine);
  put("a.json", {1, 2});
  EXPECT_EQ(check("/mem/semantic/b.json", R"({"embedding": [1, 2, 3]})"), Code::kInvalid);
  EXPECT_EQ(check("/mem/semantic/a.json", R"({"embedding": [1, 2, 3]})"), fine);  // replaces the only one
  EXPECT_EQ(check("/mem/semantic/b.json", R"({"embedding": ["1", 2]})"), Code::kInvalid);
  EXPECT_EQ(check("/mem/semantic/b.json", R"([1, 2])"), Code::kInvalid);
  EXPECT_EQ(check("/mem/semantic/b.txt", "x"), fine);
  EXPECT_EQ(check("/mem/semanticX/b.json", "1"), fine);
  ASSERT_OK(unlink(agent_->fs(), "/mem/semantic/a.json"));
  EXPECT_EQ(check("/mem/semantic/b.json", R"({"embedding": [1, 2, 3]})"), fine);
}

TEST_F(SemanticIndexTest, OneFileOfAnotherDimensionHidesNoOthers) {
  put("a.json", {1, 2});
  put("b.json", {2, 1});
  put("c.json", {1, -1});
  put("a.json", {1, 2, 3});
  EXPECT_EQ(find({1, 1}), (Paths{"b.json", "c.json"}));
  ASSERT_OK(unlink(agent_->fs(), "/mem/semantic/c.json"));
  EXPECT_EQ(find({1, 2, 3}), (Paths{"a.json"}));  // as many of both: the oldest file decides
}

TEST_F(SemanticIndexTest, ATextWithoutAnEmbeddingGetsOneAndTheFileStaysAsItIs) {
  put("own1.json", {1, 0});
  put("own2.json", {0, 1});
  write("a.json", R"({"text": "aaa"})");
  write("deep/b.json", R"({"text": "bbb", "metadata": {"k": 1}})");
  write("empty.json", R"({"text": ""})");
  write("odd.json", R"({"text": "c", "metadata": 5})");
  clock_.advance_ns(5'000'000'000);  // times of whole seconds are believed after a while
  LetterEmbedder letters;
  EXPECT_EQ(*index_->embed_missing(letters), 0U);
  EXPECT_EQ(letters.embedded, 2);
  EXPECT_EQ(find_by_letters(*index_, {1, 0.2F, 0}), (Paths{"a.json", "deep/b.json"}));
  EXPECT_EQ(find_by_letters(*index_, {0, 1, 0}).front(), "deep/b.json");
  EXPECT_EQ(find({1, 0}).size(), 2U);  // the dimension of most files
  EXPECT_EQ(*read_file(agent_->fs(), "/mem/semantic/a.json"), R"({"text": "aaa"})");
  EXPECT_EQ(*index_->embed_missing(letters), 0U);
  SemanticIndex other(agent_->store(), agent_->fs());  // as the next process
  EXPECT_EQ(*other.embed_missing(letters), 0U);
  EXPECT_EQ(letters.embedded, 2);
  EXPECT_EQ(find_by_letters(other, {0, 1, 0}).front(), "deep/b.json");
}

TEST_F(SemanticIndexTest, AnEmbeddingThatWasMadeFollowsTheTextAndTheModel) {
  write("a.json", R"({"text": "aaa"})");
  write("b.json", R"({"text": "bbb"})");
  LetterEmbedder letters;
  ASSERT_OK(index_->embed_missing(letters));
  write("a.json", R"({"text": "ccc"})");
  ASSERT_OK(unlink(agent_->fs(), "/mem/semantic/b.json"));
  ASSERT_OK(index_->embed_missing(letters));
  EXPECT_EQ(letters.embedded, 3);
  EXPECT_EQ(find_by_letters(*index_, {0, 0, 1}), (Paths{"a.json"}));
  LetterEmbedder others("others");
  ASSERT_OK(index_->embed_missing(others));
  EXPECT_EQ(others.embedded, 1);
  ASSERT_OK(index_->embed_missing(letters));
  EXPECT_EQ(letters.embedded, 4);
  write("a.json", R"({"text": "ccc", "embedding": [1, 2, 3], "metadata": {"embedding_model": "letters"}})");
  ASSERT_OK(index_->embed_missing(others));
  EXPECT_EQ(others.embedded, 1);  // its own embedding stays
  EXPECT_EQ(find_by_letters(*index_, {1, 2, 3}), (Paths{"a.json"}));
}

TEST_F(SemanticIndexTest, AFileThatChangesWhileItIsEmbeddedIsEmbeddedAgain) {
  write("a.json", R"({"text": "aaa"})");
  LetterEmbedder letters;
  letters.meanwhile = [&] {
    letters.meanwhile = nullptr;
    write("a.json", R"({"text": "ccc"})");
    ASSERT_OK(ask(*index_, {1, 2}));  // somebody else's query
  };
  ASSERT_OK(index_->embed_missing(letters));
  ASSERT_OK(index_->embed_missing(letters));
  EXPECT_EQ(find_by_letters(*index_, {0, 0, 1}), (Paths{"a.json"}));
  VectorQuery query{.embedding = {0, 0, 1}, .top_k = 1, .filter = {}};
  auto found = index_->query(
      kSemanticMemory, query, [](const std::string&, OtherNames) { return Result(true); },
      SemanticIndex::Dimension::kOfQuery);
  EXPECT_GT(found->front().score, 0.9);
}

TEST_F(SemanticIndexTest, AnEmbedderThatFailsChangesNothing) {
  write("a.json", R"({"text": "aaa"})");
  LetterEmbedder letters;
  letters.failure = Error(Code::kUnavailable, "not now");
  EXPECT_EQ(error_of(index_->embed_missing(letters)), Code::kUnavailable);
  EXPECT_EQ(problems().size(), 1U);
  letters.failure.reset();
  ASSERT_OK(index_->embed_missing(letters));
  EXPECT_EQ(problems().size(), 0U);
}

TEST_F(SemanticIndexTest, WR30_ALostEmbeddingIsMadeAgain) {
  write("a.json", R"({"text": "aaa"})");
  LetterEmbedder letters;
  ASSERT_OK(index_->embed_missing(letters));
  ASSERT_OK(agent_->store().database().execute("DELETE FROM wr_vector"));
  EXPECT_EQ(find_by_letters(*index_, {1, 0, 0}), Paths{});
  ASSERT_OK(index_->embed_missing(letters));
  EXPECT_EQ(letters.embedded, 2);
  EXPECT_EQ(find_by_letters(*index_, {1, 0, 0}), (Paths{"a.json"}));
  ASSERT_OK(agent_->store().database().execute("UPDATE wr_vector SET metadata = '5', text = x'ff', problem = ''"));
  SemanticIndex other(agent_->store(), agent_->fs());
  ASSERT_OK(other.embed_missing(letters));
}

}  // namespace
}  // namespace warren
