#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <thread>

#include <sys/stat.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "agent/agent.h"
#include "base/ascii.h"
#include "base/path.h"
#include "context/search.h"
#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using Paths = std::vector<std::string>;

// Meanings that a test can predict: each number counts the words of one topic.
class FakeEmbedder final : public Embedder {
 public:
  explicit FakeEmbedder(std::string name) : name_(std::move(name)) {}

  const std::string& model() const override { return name_; }
  std::size_t dimensions() const override { return 4; }
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole) override {
    if (is_down) return Error(Code::kUnavailable, "the service is down");
    std::vector<std::vector<float>> vectors;
    for (std::string_view text : texts) vectors.push_back(vector_of(to_lower(text)));
    embedded += texts.size();
    return vectors;
  }

  bool is_down = false;
  std::size_t embedded = 0;

 private:
  static std::vector<float> vector_of(const std::string& text) {
    static const std::vector<std::vector<std::string>> topics{
        {"cat", "kitten", "feline"}, {"car", "automobile", "vehicle"}, {"soup", "broth"}};
    std::vector<float> numbers{0, 0, 0, 0.01F};
    for (std::size_t topic = 0; topic < topics.size(); ++topic) {
      for (const std::string& word : topics[topic]) {
        if (text.find(word) != std::string::npos) numbers[topic] += 1;
      }
    }
    float length = std::sqrt(numbers[0] * numbers[0] + numbers[1] * numbers[1] + numbers[2] * numbers[2] + 0.0001F);
    for (float& number : numbers) number /= length;
    return numbers;
  }

  std::string name_;
};

class ContextIndexTest : public ::testing::Test {
 protected:
  ContextIndexTest() {
    make("a");
    agent_ = open_agent("a");
  }
  std::string file(std::string_view name) const { return dir_.file(name); }
  void make(const std::string& id) {
    clock_.advance_ns(1'000'001);
    auto made = Store::open(file(id + ".db"), {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_);
    ASSERT_OK(made);
  }
  void make_with_base(const std::string& id, const std::string& base) {
    make(id);
    auto made = Store::open(file(id + ".db"), {.durability = Durability::kProcess}, clock_);
    ASSERT_OK(made);
    Database& database = (*made)->database();
    ASSERT_OK(database.execute("CREATE TABLE fs_overlay_config (key TEXT PRIMARY KEY, value TEXT NOT NULL)"));
    Statement put = database.prepare("INSERT INTO fs_overlay_config VALUES ('base_path', ?)").value();
    ASSERT_OK(put.bind(1, std::string_view(base)).run());
  }
  std::unique_ptr<Agent> open_agent(const std::string& id, OpenMode mode = OpenMode::kReadWrite) {
    auto opened =
        Agent::open({.id_or_path = file(id + ".db"), .mode = mode, .durability = Durability::kProcess}, clock_);
    EXPECT_OK(opened);
    return std::move(opened).value();
  }
  std::unique_ptr<ContextIndex> open_index(Agent& agent, ContextOptions options = {}) {
    auto opened = ContextIndex::open(agent, std::move(options), clock_);
    EXPECT_OK(opened);
    return std::move(opened).value();
  }
  ContextIndex& index() {
    if (!index_) index_ = open_index(*agent_, {.embedder = embedder_});
    return *index_;
  }
  void write(std::string_view path, std::string_view content) {
    clock_.advance_ns(1'000'001);
    ASSERT_OK(write_file(agent_->fs(), path, as_bytes(content)));
  }
  SearchAnswer answer(const SearchQuery& query) {
    Result<SearchAnswer> found = index().search(query);
    EXPECT_OK(found);
    return found.ok() ? *std::move(found) : SearchAnswer{};
  }
  Paths paths(const SearchQuery& query) {
    Paths found;
    SearchAnswer given = answer(query);
    for (const SearchHit& hit : given.hits) found.push_back(hit.path);
    return found;
  }
  Paths find(std::string_view text) { return paths({.text = std::string(text)}); }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  FakeEmbedder fake_{"fake-1"};
  Embedder* embedder_ = nullptr;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<ContextIndex> index_;
};

// Text.

TEST_F(ContextIndexTest, FindsAnyOfTheWordsBestFirst) {
  write("/a.md", "# Boats\n\nA sail catches wind.\n");
  write("/b.md", "# Trees\n\nAn oak has wind in its leaves.\n");
  write("/c.md", "Nothing of it.\n");
  EXPECT_EQ(find("sails in the wind"), (Paths{"/a.md", "/b.md"}));
  EXPECT_EQ(find("quantum"), Paths{});
}

TEST_F(ContextIndexTest, AHitSaysWhereItIs) {
  write("/docs/install.md", "# Install\n\nFirst words.\n\n## Linux\n\n" + std::string(400, 'x') +
                                "\n\nUse the package manager frobnicate.\nThen start it.\n");
  SearchAnswer found = answer({.text = "frobnicate"});
  ASSERT_EQ(found.hits.size(), 1U);
  const SearchHit& hit = found.hits[0];
  EXPECT_EQ(hit.path, "/docs/install.md");
  EXPECT_EQ(hit.first_line, 1U);
  EXPECT_EQ(hit.last_line, 10U);
  EXPECT_EQ(hit.heading, "Install");
  EXPECT_EQ(hit.snippet_line, 9U);
  EXPECT_EQ(hit.snippet, "Use the package manager frobnicate.\nThen start it.");
  EXPECT_TRUE(hit.by_text);
  EXPECT_FALSE(hit.by_meaning);
  EXPECT_GT(hit.score, 0);
}

TEST_F(ContextIndexTest, PhrasesAndPrefixesAreKept) {
  write("/a", "the red house");
  write("/b", "a house that is red");
  write("/c", "redhead");
  EXPECT_EQ(find("\"red house\""), Paths{"/a"});
  EXPECT_EQ(find("redh*"), Paths{"/c"});
}

TEST_F(ContextIndexTest, OperatorsOfTheEngineAreWords) {
  write("/a", "near not or and column: x^2 \"quoted\" a-b");
  for (std::string_view query : {"NEAR(", "column:", "x^2", "a-b", "\"", "\"\"", "*", "name:a", "OR",
                                 "'; DROP TABLE file; --", "{a b}: c", "\"quoted", "+ +", "-near"}) {
    EXPECT_OK(index().search({.text = std::string(query)})) << query;
  }
  EXPECT_EQ(find("NEAR"), Paths{"/a"});
  EXPECT_EQ(error_of(index().search({.text = " \n"})), Code::kInvalid);
}

TEST_F(ContextIndexTest, FilesWithoutTextAreFoundByTheirNames) {
  write("/pictures/lighthouse.png", std::string("\x89PNG\0\0\1", 7));
  SearchAnswer found = answer({.text = "lighthouse"});
  ASSERT_EQ(found.hits.size(), 1U);
  EXPECT_EQ(found.hits[0].path, "/pictures/lighthouse.png");
  EXPECT_EQ(found.hits[0].first_line, 0U);
}

TEST_F(ContextIndexTest, FollowsWritesMovesAndRemovals) {
  write("/a", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/a"});
  write("/a", "beta");
  EXPECT_EQ(find("alpha"), Paths{});
  EXPECT_EQ(find("beta"), Paths{"/a"});
  ASSERT_OK(rename(agent_->fs(), "/a", "/b"));
  EXPECT_EQ(find("beta"), Paths{"/b"});
  ASSERT_OK(make_dirs(agent_->fs(), "/x/y"));
  ASSERT_OK(rename(agent_->fs(), "/b", "/x/y/b"));
  EXPECT_EQ(find("beta"), Paths{"/x/y/b"});
  ASSERT_OK(rename(agent_->fs(), "/x", "/z"));
  EXPECT_EQ(find("beta"), Paths{"/z/y/b"});
  write("/z/y/c", "beta");
  EXPECT_EQ(find("beta").size(), 2U);
  ASSERT_OK(remove(agent_->fs(), "/z", {.recursive = Recursive::kYes}));
  EXPECT_EQ(find("beta"), Paths{});
}

TEST_F(ContextIndexTest, AFileThatIsADirectoryNowIsNotFound) {
  write("/n", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/n"});
  ASSERT_OK(unlink(agent_->fs(), "/n"));
  write("/n/m", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/n/m"});
  ASSERT_OK(remove(agent_->fs(), "/n", {.recursive = Recursive::kYes}));
  write("/n", "alpha again");
  EXPECT_EQ(find("alpha"), Paths{"/n"});
}

TEST_F(ContextIndexTest, AFileWithTwoNamesIsFoundByBoth) {
  write("/a", "alpha");
  ASSERT_OK(link(agent_->fs(), "/a", "/b"));
  EXPECT_EQ(find("alpha").size(), 2U);
  write("/b", "beta");
  EXPECT_EQ(find("alpha"), Paths{});
  EXPECT_EQ(find("beta").size(), 2U);
}

TEST_F(ContextIndexTest, AnExpiredFileIsNotFound) {
  clock_.advance_ns(1'000'001);
  WriteFileOptions options{.owner = {}, .expires_at_ms = clock_.now().seconds * 1000 + 5000};
  ASSERT_OK(write_file(agent_->fs(), "/a", as_bytes("alpha"), options));
  EXPECT_EQ(find("alpha"), Paths{"/a"});
  clock_.advance_ns(std::int64_t{10} * 1'000'000'000);
  EXPECT_EQ(find("alpha"), Paths{});
}

TEST_F(ContextIndexTest, ChangesOfAnotherProcessAreFound) {
  write("/a", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/a"});
  auto other = open_agent("a");
  clock_.advance_ns(1'000'001);
  ASSERT_OK(write_file(other->fs(), "/b", as_bytes("beta")));
  EXPECT_EQ(find("beta"), Paths{"/b"});
}

TEST_F(ContextIndexTest, ChangesByAProgramThatIsNotOursAreFound) {
  write("/a", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/a"});
  {
    auto database = Database::open(file("a.db"), {.mode = OpenMode::kReadWrite, .durability = Durability::kProcess});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute(
        "UPDATE fs_data SET data = CAST('gamma' AS BLOB); UPDATE fs_inode SET mtime = mtime + 5 WHERE size = 5"));
  }
  EXPECT_EQ(find("alpha"), Paths{});
  EXPECT_EQ(find("gamma"), Paths{"/a"});
}

TEST_F(ContextIndexTest, TheDirectoryOfGitIsLeftOut) {
  write("/p/.git/config", "alpha");
  write("/p/.gitignore", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/p/.gitignore"});
  write("/p/.git/HEAD", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/p/.gitignore"});
}

// Filters.

TEST_F(ContextIndexTest, FiltersApplyBeforeTheCut) {
  for (int i = 0; i < 300; ++i) write(fmt::format("/noise/{}.txt", i), "apple apple apple");
  write("/wanted/one.md", "one apple and many other words about something else entirely");
  EXPECT_EQ(paths({.text = "apple", .below = "/wanted", .globs = {}, .mime = {}, .limit = 5}), Paths{"/wanted/one.md"});
  EXPECT_EQ(paths({.text = "apple", .globs = {"**/*.md"}, .mime = {}, .limit = 5}), Paths{"/wanted/one.md"});
  EXPECT_EQ(paths({.text = "apple", .globs = {}, .mime = "text/markdown", .limit = 5}), Paths{"/wanted/one.md"});
  SearchQuery allowed{.text = "apple", .globs = {}, .mime = {}};
  allowed.may_read = [](const std::string& path) { return Result(path.starts_with("/wanted")); };
  EXPECT_EQ(paths(allowed), Paths{"/wanted/one.md"});
  SearchQuery recent{.text = "apple", .globs = {}, .mime = {}, .since = clock_.now().seconds + 1};
  EXPECT_EQ(paths(recent), Paths{});
}

TEST_F(ContextIndexTest, AFrequentWordOrdersAndIsFoundWhereRareOnesAreNot) {
  std::string noise;
  for (int i = 0; i < 120; ++i) noise += "## Part\n\nharbour " + std::string(320, 'x') + "\n\n";
  for (int i = 0; i < 45; ++i) write(fmt::format("/noise/{}.md", i), noise);  // more than 5,000 chunks
  write("/other/a.md", "the harbour at night");
  for (int i = 0; i < 5; ++i) write(fmt::format("/bells/{}.md", i), "a bell buoy rings");
  write("/bells/harbour.txt", "the bell buoy of the harbour");
  EXPECT_EQ(find("harbour buoy").front(), "/bells/harbour.txt");
  EXPECT_EQ(paths({.text = "harbour buoy", .below = "/other"}), Paths{"/other/a.md"});
  EXPECT_EQ(find("harbour").size(), 10U);  // a file with many such chunks leaves room for others
}

TEST_F(ContextIndexTest, APathIsNotAPattern) {
  write("/a%/x", "apple");
  write("/ab/x", "apple");
  write("/a_/x", "apple");
  write("/a", "apple");
  EXPECT_EQ(paths({.text = "apple", .below = "/a%"}), Paths{"/a%/x"});
  EXPECT_EQ(paths({.text = "apple", .below = "/a_/"}), Paths{"/a_/x"});
  EXPECT_EQ(paths({.text = "apple", .below = "/a"}), Paths{"/a"});
}

TEST_F(ContextIndexTest, ARefusedCallerLearnsWhyAndTheIndexStays) {
  embedder_ = &fake_;
  write("/a", "a cat");
  EXPECT_EQ(find("cat"), Paths{"/a"});
  std::size_t before = fake_.embedded;
  SearchQuery query{.text = "cat"};
  query.may_read = [](const std::string&) -> Result<bool> { return Error(Code::kCorrupt, "policy is damaged"); };
  EXPECT_EQ(error_of(index().search(query)), Code::kCorrupt);
  EXPECT_EQ(find("cat"), Paths{"/a"});
  EXPECT_EQ(fake_.embedded, before + 2);  // the questions; the file was not embedded again
}

TEST_F(ContextIndexTest, AFileHasAFewResultsAtMost) {
  std::string section = "\n\n## Part\n\napple " + std::string(600, 'x') + "\n\n" + std::string(900, 'y');
  std::string text = "# Book";
  for (int i = 0; i < 10; ++i) text += section;
  write("/book.md", text);
  write("/note.md", "an apple");
  Paths found = find("apple");
  EXPECT_EQ(std::count(found.begin(), found.end(), "/book.md"), 3);
  EXPECT_EQ(std::count(found.begin(), found.end(), "/note.md"), 1);
}

// Patterns.

TEST_F(ContextIndexTest, PatternsAreAListOfTheirOwn) {
  write("/a.cc", "int main() {\n  return fs_read(3);\n}\n");
  write("/b.cc", "int fs_write(int);\n");
  SearchAnswer found = answer({.pattern = R"(fs_(read|open)\(\d+\))"});
  ASSERT_EQ(found.hits.size(), 1U);
  EXPECT_EQ(found.hits[0].path, "/a.cc");
  EXPECT_TRUE(found.hits[0].by_pattern);
  EXPECT_EQ(found.hits[0].snippet_line, 1U);
  EXPECT_EQ(paths({.pattern = "^int fs"}), Paths{"/b.cc"});
  EXPECT_EQ(paths({.text = "main", .pattern = "fs_"}), (Paths{"/a.cc", "/b.cc"}));
}

TEST_F(ContextIndexTest, AWrongPatternIsRefusedAndAHardOneEnds) {
  EXPECT_EQ(error_of(index().search({.pattern = "a("})), Code::kInvalid);
  EXPECT_EQ(error_of(index().search({.pattern = std::string(5000, 'a')})), Code::kLimit);
  write("/a", std::string(100'000, 'a'));
  EXPECT_EQ(paths({.pattern = "(a*)*(a*)*b"}), Paths{});
}

// Meaning.

TEST_F(ContextIndexTest, FindsByMeaningAndSaysSo) {
  embedder_ = &fake_;
  write("/pets", "A kitten sleeps.");
  write("/cars", "An automobile is parked.");
  SearchAnswer found = answer({.text = "feline", .limit = 1});
  ASSERT_EQ(found.hits.size(), 1U);
  EXPECT_EQ(found.hits[0].path, "/pets");
  EXPECT_TRUE(found.hits[0].by_meaning);
  EXPECT_FALSE(found.hits[0].by_text);
  EXPECT_EQ(found.hint, "");
}

TEST_F(ContextIndexTest, WithoutAnEmbedderTheAnswerSaysSo) {
  index_ = open_index(*agent_, {.no_embedder = "no model is installed"});
  write("/a", "alpha");
  SearchAnswer found = answer({.text = "alpha"});
  EXPECT_EQ(found.hits.size(), 1U);
  EXPECT_EQ(found.hint, "found by words alone: no model is installed");
}

TEST_F(ContextIndexTest, WhileTheEmbedderIsDownWordsAreFoundAndTheQueueWaits) {
  embedder_ = &fake_;
  write("/a", "alpha cat");
  fake_.is_down = true;
  SearchAnswer found = answer({.text = "alpha"});
  EXPECT_EQ(found.hits.size(), 1U);
  EXPECT_EQ(found.hint, "found by words alone: the embedder 'fake-1' does not answer: the service is down");
  EXPECT_EQ(found.waiting, 1U);
  EXPECT_EQ(error_of(index().embed_some(std::chrono::seconds(1))), Code::kUnavailable);
  fake_.is_down = false;
  EXPECT_EQ(answer({.text = "kitten"}).hits.size(), 1U);
  EXPECT_EQ(index().status()->waiting, 0U);
}

TEST_F(ContextIndexTest, MovingAndCopyingEmbedNothing) {
  embedder_ = &fake_;
  write("/a", "a cat");
  find("cat");
  std::size_t before = fake_.embedded;
  ASSERT_OK(rename(agent_->fs(), "/a", "/b"));
  ASSERT_OK(copy_file(agent_->fs(), "/b", "/c"));
  write("/b", "a cat");
  IndexStatus status = *index().status();
  EXPECT_EQ(status.files, 2U);
  EXPECT_EQ(status.waiting, 0U);
  EXPECT_EQ(status.embedded, 1U);
  EXPECT_EQ(fake_.embedded, before);
}

TEST_F(ContextIndexTest, DeletingRemovesTheVectorsToo) {
  embedder_ = &fake_;
  write("/a", "a cat");
  write("/b", "a car");
  EXPECT_EQ(find("kitten").front(), "/a");
  ASSERT_OK(unlink(agent_->fs(), "/a"));
  EXPECT_EQ(index().status()->embedded, 1U);
  EXPECT_EQ(find("kitten"), Paths{"/b"});
}

TEST_F(ContextIndexTest, AnotherModelEmbedsAgainWhileTheOldOneAnswers) {
  embedder_ = &fake_;
  write("/a", "a cat");
  find("cat");
  FakeEmbedder second("fake-2");
  second.is_down = true;  // it cannot embed yet
  index_ = open_index(*agent_, {.embedder = &second, .other_embedder = [&](const std::string& model) -> Embedder* {
                                  return model == "fake-1" ? &fake_ : nullptr;
                                }});
  EXPECT_EQ(find("feline"), Paths{"/a"});
  EXPECT_EQ(index().status()->waiting, 1U);
  second.is_down = false;
  EXPECT_EQ(*index().embed_some(std::chrono::seconds(1)), 1U);
  EXPECT_EQ(index().status()->embedded, 1U);
  std::size_t before = fake_.embedded;
  EXPECT_EQ(find("feline"), Paths{"/a"});
  EXPECT_EQ(fake_.embedded, before);  // its vectors are gone
}

// Its first call for texts waits until the test lets it go on.
class SlowEmbedder final : public Embedder {
 public:
  const std::string& model() const override { return fake_.model(); }
  std::size_t dimensions() const override { return fake_.dimensions(); }
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole role) override {
    bool waits = role == TextRole::kPassage && !was_called_.exchange(true);
    if (waits) {
      called.set_value();
      go_on.get_future().wait();
    }
    return fake_.embed(texts, role);
  }

  std::promise<void> called;
  std::promise<void> go_on;

 private:
  FakeEmbedder fake_{"slow"};
  std::atomic<bool> was_called_ = false;
};

TEST_F(ContextIndexTest, ASearchIsAnsweredWhileTheEmbedderWorksForTheQueue) {
  SlowEmbedder slow;
  index_ = open_index(*agent_, {.embedder = &slow, .embed_time = std::chrono::milliseconds(0)});
  write("/a", "a cat");
  auto queue = std::async(std::launch::async, [&] { return index_->embed_some(std::chrono::seconds(1)); });
  slow.called.get_future().wait();
  auto search = std::async(std::launch::async, [&] { return find("cat"); });
  EXPECT_EQ(search.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  slow.go_on.set_value();
  EXPECT_EQ(search.get(), Paths{"/a"});
  EXPECT_EQ(*queue.get(), 1U);
  EXPECT_EQ(index().status()->waiting, 0U);
}

TEST_F(ContextIndexTest, ASearchThatLeavesTextsWaitingSaysSo) {
  int told = 0;
  index_ = open_index(*agent_,
                      {.embedder = &fake_, .embed_time = std::chrono::milliseconds(0), .on_waiting = [&] { ++told; }});
  write("/a", "a cat");
  find("cat");
  EXPECT_EQ(told, 1);
  ASSERT_OK(index().embed_some(std::chrono::seconds(1)));
  find("cat");
  EXPECT_EQ(told, 1);
}

// Pages.

TEST_F(ContextIndexTest, PagesOfASearchHaveEveryHitOnce) {
  for (int i = 0; i < 7; ++i)
    write(fmt::format("/f{}", i), std::string("cat ") + std::string(static_cast<std::size_t>(i), 'x'));
  Paths whole = find("cat");
  ASSERT_EQ(whole.size(), 7U);
  Paths in_pages;
  for (std::size_t offset = 0; offset < 9; offset += 3) {
    SearchAnswer page = answer({.text = "cat", .limit = 3, .offset = offset});
    EXPECT_EQ(page.has_more, offset < 6) << offset;
    for (const SearchHit& hit : page.hits) in_pages.push_back(hit.path);
  }
  EXPECT_EQ(in_pages, whole);
  EXPECT_TRUE(answer({.text = "cat", .offset = 100}).hits.empty());
  EXPECT_EQ(error_of(index().search({.text = "cat", .offset = 100'000})), Code::kInvalid);
}

TEST_F(ContextIndexTest, PagesGoOnAfterTheFirstHundreds) {
  for (int i = 0; i < 450; ++i) write(fmt::format("/f{}", i), "cat");
  std::set<std::string> found;
  for (std::size_t offset = 0; offset < 500; offset += 100) {
    SearchAnswer page = answer({.text = "cat", .limit = 100, .offset = offset});
    EXPECT_EQ(page.has_more, offset < 400) << offset;
    for (const SearchHit& hit : page.hits) found.insert(hit.path);
  }
  EXPECT_EQ(found.size(), 450U);
}

// The file of the index.

TEST_F(ContextIndexTest, WhatIsEmbeddedAgainIsFoundByItsOldVectorMeanwhile) {
  FakeEmbedder embedder("m");
  write("/pets.md", "a kitten");
  write("/cars.md", "an automobile");
  index_ = open_index(*agent_, {.embedder = &embedder, .embed_time = std::chrono::milliseconds(0)});
  ASSERT_EQ(index_->embed_some(std::chrono::minutes(1)).value(), 2U);
  ASSERT_OK(index_->start_embedding_again());
  EXPECT_EQ(index_->status()->waiting, 2U);
  SearchAnswer answer = index_->search({.text = "feline"}).value();
  ASSERT_FALSE(answer.hits.empty());
  EXPECT_EQ(answer.hits.front().path, "/pets.md");
  EXPECT_TRUE(answer.hits.front().by_meaning);
  EXPECT_NE(answer.hint.find("vectors from before"), std::string::npos) << answer.hint;
  ASSERT_OK(index_->start_embedding_again());  // as if the first time was interrupted
  std::size_t before = embedder.embedded;
  EXPECT_EQ(index_->embed_some(std::chrono::minutes(1)).value(), 2U);
  EXPECT_EQ(embedder.embedded, before + 2);
  answer = index_->search({.text = "feline"}).value();
  EXPECT_EQ(answer.hits.front().path, "/pets.md");
  EXPECT_EQ(answer.hint, "");
  index_ = open_index(*agent_, {});
  EXPECT_EQ(error_of(index_->start_embedding_again()), Code::kNotFound);
}

TEST_F(ContextIndexTest, ChunksOfAFileAreListed) {
  FakeEmbedder embedder("m");
  write("/a.md", "# One\n\n" + std::string(900, 'y') + "\n\n# Two\n\n" + std::string(900, 'x') + "\n");
  write("/b.bin", std::string("\0\1", 2));
  index_ = open_index(*agent_, {.embedder = &embedder, .embed_time = std::chrono::milliseconds(0)});
  std::vector<ChunkInfo> chunks = index_->list_chunks("/a.md").value();
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0].first_line, 1U);
  EXPECT_FALSE(chunks[0].is_embedded);
  ASSERT_OK(index_->embed_some(std::chrono::minutes(1)));
  EXPECT_TRUE(index_->list_chunks("/a.md").value()[1].is_embedded);
  EXPECT_EQ(index_->list_chunks("/a.md").value()[1].heading, "Two");
  EXPECT_TRUE(index_->list_chunks("/b.bin").value().empty());
  EXPECT_EQ(error_of(index_->list_chunks("/none")), Code::kNotFound);
}

TEST_F(ContextIndexTest, TheIndexIsPrivateAndOutsideTheAgentFile) {
  write("/a", "alpha");
  find("alpha");
  struct stat there {};
  ASSERT_EQ(::stat(file("a.index.db").c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0600U);
  Statement tables =
      agent_->store().database().prepare("SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%VIRTUAL%'").value();
  EXPECT_EQ(*tables.find_integer(), 0);
}

TEST_F(ContextIndexTest, AnIndexThatIsKeptReadsOnlyWhatChanged) {
  write("/a", "alpha");
  write("/b", "beta");
  find("alpha");
  index_.reset();
  std::size_t looked_at = 0;
  index_ = open_index(*agent_);
  write("/c", "gamma");
  ASSERT_OK(index_->catch_up([&](const IndexProgress& progress) { looked_at = progress.total; }));
  EXPECT_EQ(looked_at, 1U);
  EXPECT_EQ(find("alpha"), Paths{"/a"});
}

TEST_F(ContextIndexTest, AMissingIndexIsMadeAgainAlsoWhileItIsOpen) {
  write("/a", "alpha");
  EXPECT_EQ(find("alpha"), Paths{"/a"});
  for (const char* suffix : {"", "-wal", "-shm"}) (void)remove_host_file(file("a.index.db") + suffix);
  EXPECT_EQ(find("alpha"), Paths{"/a"});
  EXPECT_TRUE(find_host_file(file("a.index.db"))->has_value());
}

TEST_F(ContextIndexTest, ADamagedIndexIsMadeAgain) {
  write("/a", "alpha");
  find("alpha");
  index_.reset();
  ASSERT_OK(replace_host_file(file("a.index.db"), std::string(20'000, 'z'), 0600));
  EXPECT_EQ(find("alpha"), Paths{"/a"});
  index_.reset();
  // Damage within: pages of zeros after the header.
  std::string content = *read_host_file(file("a.index.db"), 1 << 24);
  for (std::size_t at = 4096; at < content.size(); ++at) content[at] = '\0';
  ASSERT_OK(replace_host_file(file("a.index.db"), content, 0600));
  EXPECT_EQ(find("alpha"), Paths{"/a"});
}

TEST_F(ContextIndexTest, TheIndexOfAnotherAgentIsNotBelieved) {
  write("/a", "alpha");
  find("alpha");
  index_.reset();
  make("b");
  auto other = open_agent("b");
  ASSERT_OK(write_file(other->fs(), "/secret", as_bytes("alpha of another")));
  ASSERT_OK(open_index(*other)->catch_up());
  ASSERT_OK(replace_host_file(file("a.index.db"), *read_host_file(file("b.index.db"), 1 << 24), 0600));
  EXPECT_EQ(find("alpha"), Paths{"/a"});
}

TEST_F(ContextIndexTest, AnIndexThatOthersCouldWriteIsNotBelieved) {
  write("/a", "alpha");
  find("alpha");
  index_.reset();
  {
    auto database = Database::open(file("a.index.db"), {.mode = OpenMode::kReadWrite});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute("UPDATE chunk SET body = 'lies about alpha'"));
  }
  ASSERT_EQ(::chmod(file("a.index.db").c_str(), 0666), 0);
  EXPECT_EQ(answer({.text = "alpha"}).hits.at(0).snippet, "alpha");
}

TEST_F(ContextIndexTest, AnAgentInMemoryHasItsIndexThere) {
  auto agent = Agent::open({.id_or_path = ":memory:"}, clock_);
  ASSERT_OK(agent);
  ASSERT_OK(write_file((*agent)->fs(), "/a", as_bytes("alpha")));
  auto index = open_index(**agent);
  EXPECT_EQ(index->search({.text = "alpha"})->hits.size(), 1U);
  ASSERT_OK(write_file((*agent)->fs(), "/b", as_bytes("alpha")));
  EXPECT_EQ(index->search({.text = "alpha"})->hits.size(), 2U);
}

TEST_F(ContextIndexTest, AReaderSearchesToo) {
  write("/a", "alpha");
  auto reader = open_agent("a", OpenMode::kReadOnly);
  auto index = open_index(*reader);
  EXPECT_EQ(index->search({.text = "alpha"})->hits.size(), 1U);
  write("/b", "alpha");
  EXPECT_EQ(index->search({.text = "alpha"})->hits.size(), 2U);
}

TEST_F(ContextIndexTest, TheBaseIsSearchedWithTheChanges) {
  ASSERT_OK(make_host_dirs(file("base/sub"), 0755));
  ASSERT_OK(replace_host_file(file("base/a"), "alpha of the base", 0644));
  ASSERT_OK(replace_host_file(file("base/sub/b"), "beta of the base", 0644));
  make_with_base("o", file("base"));
  auto agent = open_agent("o");
  ASSERT_TRUE(agent->base().has_value());
  auto index = open_index(*agent);
  auto ask = [&](std::string_view text) {
    Paths found;
    Result<SearchAnswer> answer = index->search({.text = std::string(text)});
    EXPECT_OK(answer);
    if (!answer.ok()) return found;
    for (const SearchHit& hit : answer->hits) found.push_back(hit.path);
    return found;
  };
  EXPECT_EQ(ask("alpha"), Paths{"/a"});
  ASSERT_OK(write_file(agent->fs(), "/a", as_bytes("gamma")));
  ASSERT_OK(unlink(agent->fs(), "/sub/b"));
  EXPECT_EQ(ask("alpha"), Paths{});
  EXPECT_EQ(ask("gamma"), Paths{"/a"});
  EXPECT_EQ(ask("beta"), Paths{});
  ASSERT_OK(replace_host_file(file("base/c"), "delta came later", 0644));
  EXPECT_EQ(ask("delta"), Paths{"/c"});
}

TEST_F(ContextIndexTest, ABaseThatTheAgentIsNotOpenWithIsNotIndexed) {
  ASSERT_OK(make_host_dirs(file("base"), 0755));
  ASSERT_OK(replace_host_file(file("base/secret"), "alpha of the base", 0644));
  make_with_base("o", file("base"));
  AgentOptions own{.id_or_path = file("o.db"), .durability = Durability::kProcess, .layers = Layers::kOwn};
  auto agent = Agent::open(own, clock_).value();
  ASSERT_OK(write_file(*agent->namespace_tree().value(), "/notes", as_bytes("alpha of the namespace")));
  SearchQuery query{.text = "alpha"};
  query.path_for_caller = [](int tree, const std::string& path) -> std::optional<std::string> {
    return (tree == kNamespaceTree ? "" : "/project") + path;
  };
  auto found = [&](Agent& of) {
    Paths paths;
    auto index = open_index(of);
    SearchAnswer answer = index->search(query).value();
    for (const SearchHit& hit : answer.hits) paths.push_back(hit.path);
    std::ranges::sort(paths);
    return paths;
  };
  EXPECT_EQ(found(*agent), Paths{"/notes"});
  EXPECT_EQ(open_index(*agent)->status()->files, 1U);
  auto merged = open_agent("o");
  EXPECT_EQ(found(*merged), (Paths{"/notes", "/project/secret"}));
  query.below = "/project";
  EXPECT_EQ(found(*merged), Paths{"/project/secret"});
  query.below = "/";
  query.globs = {"/n*"};
  EXPECT_EQ(found(*merged), Paths{"/notes"});
}

TEST_F(ContextIndexTest, HugeFilesAndHostileNamesDoNoHarm) {
  std::string name = "/n\xFF\n%_'\";--.txt";
  write(name, "alpha in a strange place");
  EXPECT_EQ(find("alpha"), Paths{name});
  ASSERT_OK(write_file(agent_->fs(), "/huge", as_bytes("")));
  ASSERT_OK(truncate(agent_->fs(), "/huge", std::uint64_t{1} << 40));
  EXPECT_EQ(find("huge"), Paths{"/huge"});
  IndexStatus status = *index().status();
  ASSERT_EQ(status.problems.size(), 1U);
  EXPECT_EQ(status.problems[0].path, "/huge");
}

TEST_F(ContextIndexTest, TwoThatIndexAtTheSameTimeDoNotDisturbEachOther) {
  for (int i = 0; i < 600; ++i) write(fmt::format("/f{}", i), fmt::format("alpha number{}", i));
  auto first = open_agent("a", OpenMode::kReadOnly);
  auto second = open_agent("a", OpenMode::kReadOnly);
  auto one = open_index(*first);
  auto two = open_index(*second);
  std::thread other([&] { EXPECT_OK(two->catch_up()); });
  EXPECT_OK(one->catch_up());
  other.join();
  EXPECT_EQ(one->status()->files, 600U);
  for (int i = 0; i < 600; i += 97) {
    EXPECT_EQ(one->search({.text = fmt::format("number{}", i)})->hits.size(), 1U) << i;
  }
}

}  // namespace
}  // namespace warren
