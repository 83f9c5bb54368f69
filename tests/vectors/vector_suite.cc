// What every VectorIndex owes (backends/vector/vector_index.h). VECTOR_INDEX is the address of the one to test; each
// test has an index of its own, whose number takes the place of {} in the address. SECRET is a part of it that no
// message may contain; DEAD is an address where nobody answers, and HANGS one where somebody accepts and never answers.
// PROXIED is the address of a server at SERVER_PORT with {port} in the place of the port, for a proxy's.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "backends/vector/open_vector_index.h"
#include "testing/faulty_proxy.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;
using testing::FaultyProxy;
using Ids = std::vector<std::string>;

std::string variable(const char* name, const char* fallback = "") {
  const char* value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

std::string replaced(std::string text, std::string_view part, const std::string& by) {
  if (std::size_t at = text.find(part); at != std::string::npos) text.replace(at, part.size(), by);
  return text;
}

// An index with a short timeout may need more than one attempt on a busy machine.
template <class Call>
auto eventually(const Call& call) {
  auto result = call();
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (error_of(result) == Code::kUnavailable && std::chrono::steady_clock::now() < until) result = call();
  return result;
}

std::unique_ptr<VectorIndex> open_at(std::string address,
                                     std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  static SystemClock clock;
  Result<std::unique_ptr<VectorIndex>> index = open_vector_index(address, {.clock = clock, .timeout = timeout});
  EXPECT_OK(index);
  return index.ok() ? std::move(index).take_value() : nullptr;
}

class VectorIndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    index_ = open_at(new_address("VECTOR_INDEX"));
    ASSERT_NE(index_, nullptr);
  }
  static std::string new_address(const char* name) {
    static int number = 0;
    return replaced(variable(name, "memory:"), "{}", fmt::format("{}_{}", ::getpid(), ++number));
  }
  void put(const std::string& id, const std::vector<float>& embedding, const Json& metadata = Json::object()) {
    EXPECT_OK(index_->upsert(std::vector{item(id, embedding, metadata)}));
  }
  static VectorItem item(const std::string& id, const std::vector<float>& embedding,
                         const Json& metadata = Json::object()) {
    return {.id = id, .embedding = embedding, .text = "text of " + id, .metadata = metadata};
  }
  Ids find(const std::vector<float>& embedding, std::string_view filter = "{}", std::size_t top_k = 10) {
    VectorQuery query{.embedding = embedding, .top_k = top_k, .filter = {}};
    auto parsed = parse_vector_filter(*parse_json(filter));
    EXPECT_OK(parsed);
    query.filter = *parsed;
    auto found = index_->query(query);
    EXPECT_OK(found);
    Ids ids;
    if (!found.ok()) return ids;
    for (const VectorMatch& match : *found) ids.push_back(match.item.id);
    return ids;
  }
  Ids sorted(Ids ids) {
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  std::unique_ptr<VectorIndex> index_;
};

TEST_F(VectorIndexTest, AnEmptyIndexHasNothing) {
  EXPECT_EQ(find({1, 0, 0}), Ids{});
  EXPECT_EQ(*index_->count(), 0U);
  EXPECT_EQ(index_->list({})->ids, Ids{});
  EXPECT_FALSE(index_->get("a")->has_value());
  EXPECT_FALSE(*index_->remove("a"));
}

TEST_F(VectorIndexTest, AnItemComesBackWhole) {
  VectorItem made =
      item("dir/a b%\"c", {0.1F, -2.5e-8F, 3e7F},
           {{"s", "x"}, {"n", 7}, {"f", 0.25}, {"b", true}, {"none", nullptr}, {"deep", {{"l", {1, "2"}}}}});
  made.text = "first line\nsecond \xc3\xa4 \xf0\x9f\x90\x8c";
  ASSERT_OK(index_->upsert(std::vector{made}));
  Result<std::optional<VectorItem>> got = index_->get(made.id);
  ASSERT_OK(got);
  ASSERT_TRUE(got->has_value());
  EXPECT_EQ((**got).text, made.text);
  EXPECT_EQ((**got).metadata, made.metadata);
  EXPECT_EQ((**got).id, made.id);
  ASSERT_EQ((**got).embedding.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ((**got).embedding[i], made.embedding[i]);
  EXPECT_EQ(*index_->count(), 1U);
}

TEST_F(VectorIndexTest, TheMostSimilarComeFirstWithTheirCosines) {
  put("x", {2, 0, 0});
  put("y", {0, 3, 0});
  put("xy", {1, 1, 0}, {{"k", "v"}});
  put("-x", {-1, 0, 0});
  VectorQuery query{.embedding = {5, 0, 0}, .top_k = 3, .filter = {}};
  auto found = index_->query(query);
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)[0].item.id, "x");
  EXPECT_NEAR((*found)[0].score, 1, 1e-5);
  EXPECT_EQ((*found)[1].item.id, "xy");
  EXPECT_NEAR((*found)[1].score, std::sqrt(0.5), 1e-5);
  EXPECT_EQ((*found)[1].item.text, "text of xy");
  EXPECT_EQ((*found)[1].item.metadata, (Json{{"k", "v"}}));
  EXPECT_EQ((*found)[2].item.id, "y");
  EXPECT_NEAR((*found)[2].score, 0, 1e-5);
  EXPECT_EQ(find({5, 0, 0}).back(), "-x");
}

TEST_F(VectorIndexTest, AnUpsertReplacesAllOfAnItem) {
  put("a", {1, 0}, {{"old", "yes"}, {"n", 1}});
  put("a", {0, 1}, {{"n", 2}});
  EXPECT_EQ(*index_->count(), 1U);
  EXPECT_EQ((*index_->get("a"))->metadata, (Json{{"n", 2}}));
  EXPECT_EQ(find({0, 1}, R"({"old": "yes"})"), Ids{});
  EXPECT_EQ(find({0, 1}, R"({"n": 2})"), Ids{"a"});
  ASSERT_OK(index_->upsert(std::vector{item("b", {1, 1}, {{"n", 1}}), item("b", {1, 2}, {{"n", 3}})}));
  EXPECT_EQ((*index_->get("b"))->metadata, (Json{{"n", 3}}));
}

TEST_F(VectorIndexTest, FiltersMeanTheSameEverywhere) {
  put("1", {1, 0.1F}, {{"n", 1}, {"s", "a"}, {"b", true}});
  put("2", {1, 0.2F}, {{"n", 2.5}, {"s", "b"}, {"b", false}});
  put("3", {1, 0.3F}, {{"n", 3}, {"s", "c"}});
  put("none", {1, 0.4F});
  auto ids = [&](std::string_view filter) { return find({1, 0}, filter); };
  EXPECT_EQ(ids(R"({"s": "b"})"), (Ids{"2"}));
  EXPECT_EQ(ids(R"({"n": 3})"), (Ids{"3"}));
  EXPECT_EQ(ids(R"({"n": 3.0})"), (Ids{"3"}));
  EXPECT_EQ(ids(R"({"b": true})"), (Ids{"1"}));
  EXPECT_EQ(ids(R"({"n": {"$gt": 1}})"), (Ids{"2", "3"}));
  EXPECT_EQ(ids(R"({"n": {"$gte": 1, "$lt": 3}})"), (Ids{"1", "2"}));
  EXPECT_EQ(ids(R"({"n": {"$lte": 2.5}, "s": {"$ne": "a"}})"), (Ids{"2"}));
  EXPECT_EQ(ids(R"({"s": {"$ne": "a"}})"), (Ids{"2", "3", "none"}));
  EXPECT_EQ(ids(R"({"s": {"$in": ["a", "c", "z"]}})"), (Ids{"1", "3"}));
  EXPECT_EQ(ids(R"({"s": {"$nin": ["a", "c"]}})"), (Ids{"2", "none"}));
  EXPECT_EQ(ids(R"({"missing": 1})"), Ids{});
  EXPECT_EQ(find({1, 0}, R"({"n": {"$gt": 0}})", 1), (Ids{"1"}));
}

TEST_F(VectorIndexTest, AMemberMayHaveAnyNameAndEveryItemItsOwnTypeOfIt) {
  put("text", {1, 0.1F}, {{"k", "5"}, {"a b-\xc3\xa4.$", "x"}});
  put("number", {1, 0.2F}, {{"k", 5}, {"empty", ""}, {"K", "capital"}});
  put("truth", {1, 0.3F}, {{"k", true}, {"spaces", " x "}});
  put("word", {1, 0.4F}, {{"k", "true"}, {"long", std::string(3000, 'l')}});
  auto ids = [&](std::string_view filter) { return find({1, 0}, filter); };
  EXPECT_EQ(ids(R"({"k": "5"})"), (Ids{"text"}));
  EXPECT_EQ(ids(R"({"k": 5})"), (Ids{"number"}));
  EXPECT_EQ(ids(R"({"k": true})"), (Ids{"truth"}));
  EXPECT_EQ(ids(R"({"k": "true"})"), (Ids{"word"}));
  EXPECT_EQ(ids(R"({"k": {"$in": [5, "true"]}})"), (Ids{"number", "word"}));
  EXPECT_EQ(ids(R"({"k": {"$ne": 5}})"), (Ids{"text", "truth", "word"}));
  EXPECT_EQ(ids(R"({"K": "capital"})"), (Ids{"number"}));
  EXPECT_EQ(ids("{\"a b-\xc3\xa4.$\": \"x\"}"), (Ids{"text"}));
  EXPECT_EQ(ids(R"({"empty": ""})"), (Ids{"number"}));
  EXPECT_EQ(ids(R"({"spaces": " x "})"), (Ids{"truth"}));
  EXPECT_EQ(ids(R"({"spaces": "x"})"), Ids{});
  EXPECT_EQ(ids(fmt::format(R"({{"long": "{}"}})", std::string(3000, 'l'))), (Ids{"word"}));
}

TEST_F(VectorIndexTest, WhatIsRemovedIsGone) {
  put("a", {1, 0});
  put("b", {0, 1});
  EXPECT_TRUE(*index_->remove("a"));
  EXPECT_FALSE(*index_->remove("a"));
  EXPECT_FALSE(index_->get("a")->has_value());
  EXPECT_EQ(find({1, 0}), Ids{"b"});
  EXPECT_EQ(*index_->count(), 1U);
}

TEST_F(VectorIndexTest, IdsAreListedInOrderByPrefixInPages) {
  std::vector<VectorItem> items;
  for (int i = 0; i < 330; ++i) items.push_back(item(fmt::format("p/{:03}", i), {1, static_cast<float>(i)}));
  items.push_back(item("p", {1, 1}));
  items.push_back(item("q/1", {1, 1}));
  ASSERT_OK(index_->upsert(items));
  EXPECT_EQ(*index_->count(), 332U);
  Ids all;
  VectorListOptions options{.prefix = "p/", .after = {}, .limit = 150};
  int pages = 0;
  do {
    auto page = index_->list(options);
    ASSERT_OK(page);
    EXPECT_LE(page->ids.size(), 150U);
    all.insert(all.end(), page->ids.begin(), page->ids.end());
    options.after = page->next;
    ASSERT_LT(++pages, 10);
  } while (!options.after.empty());
  ASSERT_EQ(all.size(), 330U);
  EXPECT_EQ(all, sorted(all));
  EXPECT_EQ(all.front(), "p/000");
  EXPECT_EQ(index_->list({.prefix = "q"})->ids, Ids{"q/1"});
  EXPECT_EQ(index_->list({.prefix = "z"})->ids, Ids{});
  EXPECT_EQ(index_->list({})->ids.size(), 332U);
}

TEST_F(VectorIndexTest, WhatIsNotAnItemIsRefusedAndChangesNothing) {
  float infinite = std::numeric_limits<float>::infinity();
  put("first", {1, 2, 3});
  auto refused = [&](const VectorItem& bad) {
    Status status = index_->upsert(std::vector{item("good", {3, 2, 1}), bad});
    EXPECT_EQ(error_of(status), Code::kInvalid) << bad.id;
    return status.ok() ? std::string() : status.error().message();
  };
  EXPECT_NE(refused(item("a", {1, 2})).find("2"), std::string::npos);
  refused(item("a", {1, 2, 3, 4}));
  refused(item("a", {}));
  refused(item("a", {0, 0, 0}));
  refused(item("a", {1, infinite, 0}));
  refused(item("a", {1, std::nanf(""), 0}));
  refused(item("", {1, 2, 3}));
  refused(item("a//b", {1, 2, 3}));
  refused(item("../a", {1, 2, 3}));
  refused({.id = "a", .embedding = {1, 2, 3}, .text = {}, .metadata = Json::array()});
  EXPECT_EQ(*index_->count(), 1U);
  EXPECT_EQ(error_of(index_->query({.embedding = {1, 2}, .top_k = 1, .filter = {}})), Code::kInvalid);
  EXPECT_EQ(error_of(index_->query({.embedding = {1, infinite, 1}, .top_k = 1, .filter = {}})), Code::kInvalid);
  EXPECT_EQ(error_of(index_->query({.embedding = {1, 2, 3}, .top_k = 0, .filter = {}})), Code::kInvalid);
}

TEST_F(VectorIndexTest, SeveralThreadsUseItAtOnce) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 10; ++i) {
        std::string id = fmt::format("{}/{}", thread, i);
        put(id, {1, static_cast<float>(thread), static_cast<float>(i)});
        EXPECT_TRUE(index_->get(id)->has_value());
        EXPECT_FALSE(find({1, 1, 1}).empty());
        if (i % 2 == 0) {
          EXPECT_TRUE(*index_->remove(id));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*index_->count(), 20U);
}

TEST_F(VectorIndexTest, AServiceThatDoesNotAnswerIsAnErrorInTime) {
  if (variable("DEAD").empty()) return;  // memory has none
  for (const char* kind : {"DEAD", "HANGS"}) {
    auto index = open_at(variable(kind), std::chrono::milliseconds(500));
    ASSERT_NE(index, nullptr);
    Result<std::uint64_t> count = index->count();
    ASSERT_EQ(error_of(count), Code::kUnavailable) << kind;
    EXPECT_EQ(count.error().message().find(variable("SECRET", "no secret")), std::string::npos);
    EXPECT_EQ(error_of(index->upsert(std::vector{item("a", {1, 2})})), Code::kUnavailable);
  }
  EXPECT_EQ(index_->name().find(variable("SECRET", "no secret")), std::string::npos);
}

TEST_F(VectorIndexTest, FaultsOfTheNetworkAreBoundedAndPass) {
  if (variable("PROXIED").empty()) return;  // memory has none
  FaultyProxy proxy(static_cast<std::uint16_t>(std::stoi(variable("SERVER_PORT"))));
  auto index = open_at(replaced(new_address("PROXIED"), "{port}", std::to_string(proxy.port())),
                       std::chrono::milliseconds(1000));
  ASSERT_NE(index, nullptr);
  std::set<std::string> possible{"absent"};
  auto round_of = [&](const std::string& id) {
    auto got = eventually([&] { return index->get(id); });
    EXPECT_OK(got);
    if (!got.ok() || !*got) return std::string("absent");
    EXPECT_EQ((**got).text, "text of " + id);
    EXPECT_EQ((**got).embedding, (std::vector<float>{1, 2, 3}));
    return (**got).metadata.value("round", std::string());
  };
  for (auto [name, mode] : {std::pair{"cut", FaultyProxy::Mode::kCut}, std::pair{"reset", FaultyProxy::Mode::kReset},
                            std::pair{"half", FaultyProxy::Mode::kHalf}, std::pair{"mute", FaultyProxy::Mode::kMute},
                            std::pair{"hang", FaultyProxy::Mode::kHang}}) {
    SCOPED_TRACE(name);
    std::vector kept{item("kept", {1, 2, 3}, {{"round", name}})};
    std::vector doubtful{item("doubtful", {1, 2, 3}, {{"round", name}})};
    possible.insert(name);
    ASSERT_OK(eventually([&] { return index->upsert(kept); }));
    proxy.set(mode);
    auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(error_of(index->upsert(doubtful)), Code::kUnavailable);
    EXPECT_EQ(error_of(index->get("kept")), Code::kUnavailable);
    EXPECT_EQ(error_of(index->query({.embedding = {1, 2, 3}, .top_k = 1, .filter = {}})), Code::kUnavailable);
    EXPECT_EQ(error_of(index->remove("other")), Code::kUnavailable);
    EXPECT_EQ(error_of(index->count()), Code::kUnavailable);
    EXPECT_EQ(error_of(index->list({})), Code::kUnavailable);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    proxy.set(FaultyProxy::Mode::kPass);
    EXPECT_EQ(round_of("kept"), name);
    EXPECT_TRUE(possible.contains(round_of("doubtful"))) << "whole, or not at all";
  }
  proxy.set_pace(100, std::chrono::milliseconds(1));
  proxy.set(FaultyProxy::Mode::kSlow);
  EXPECT_EQ(round_of("kept"), "hang");
}

TEST_F(VectorIndexTest, AWrongKeyIsDenied) {
  if (variable("WRONG").empty()) return;  // without keys
  auto index = open_at(variable("WRONG"));
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(error_of(index->count()), Code::kDenied);
}

TEST(OpenVectorIndex, ABadAddressIsNamedWithoutItsSecret) {
  SystemClock clock;
  for (std::string address :
       {"", "memory", "memory:x", "chroma://h", "chroma://h/a/b", "chroma://h/a?x=y", "chroma://h/a?tls=maybe",
        "pinecone://h/a", "pinecone://:s3cret@h/a/b", "pinecone://:s3cret@/a", "weaviate://h", "weaviate://h/",
        "weaviate://h/notes", "weaviate://:s3cret@h/A-b", "weaviate://h/A/b", "weaviate://h/A?x=y",
        "weaviate://h/A?tls=maybe", "redis://:s3cret@h/0", "nonsense://:s3cret@h"}) {
    auto index = open_vector_index(address, {.clock = clock});
    ASSERT_EQ(error_of(index), Code::kInvalid) << address;
    EXPECT_EQ(index.error().message().find("s3cret"), std::string::npos) << index.error().message();
  }
}

}  // namespace
}  // namespace warren
