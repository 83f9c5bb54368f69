#include "agent/copies/pushed.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/checkpoints/checkpoints.h"
#include "backends/blob/memory_blobs.h"
#include "base/json.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "store/fsck/fsck.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

class PushedTest : public ::testing::Test {
 protected:
  PushedTest() {
    ::setenv("HOME", dir_.path().c_str(), 1);
    Store::open(path_, {.mode = OpenMode::kCreate}, clock_).take_value();
    auto agent = open(path_);
    EXPECT_OK(write_file(agent->fs(), "/first", as_bytes("one")));
    EXPECT_OK(write_file(agent->fs(), "/large", as_bytes(std::string(1 << 20, 'x'))));
    EXPECT_OK(take_checkpoint(*agent, "before"));
    EXPECT_OK(write_file(agent->fs(), "/first", as_bytes("two")));
  }
  std::unique_ptr<Agent> open(const std::string& path) {
    return Agent::open({.id_or_path = path, .durability = Durability::kProcess}, clock_).take_value();
  }
  PushReport push() {
    clock_.advance_ns(1'000'000'000);
    return push_agent(*open(path_), store_, clock_).take_value();
  }
  // Over the agent: an id would be looked for in the current directory.
  Status pull(std::optional<std::string> state = std::nullopt, Replace replace = Replace::kYes) {
    auto pulled =
        pull_agent(store_, {.agent_id = "planner", .state = std::move(state), .id = path_, .replace = replace}, clock_);
    return pulled.ok() ? Status(Ok{}) : Status(std::move(pulled).take_error());
  }
  std::string first() { return read_file(open(path_)->fs(), "/first").value(); }
  std::vector<std::string> keys(const std::string& prefix) {
    std::vector<std::string> found;
    BlobPage page = store_.list({.prefix = prefix}).value();
    for (const BlobInfo& blob : page.blobs) found.push_back(blob.key);
    return found;
  }
  // What the agent's folder has apart from the agent file itself.
  std::size_t count_leftovers() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.file("agents"))) {
      std::string name = entry.path().filename();
      if (name != "planner.db" && name != "planner.db-wal" && name != "planner.db-shm") ++count;
    }
    return count;
  }
  void edit_state(const std::string& name, const std::function<void(Json&)>& change) {
    std::string key = "planner/states/" + name;
    Json json = parse_json(store_.get(key).value()->content).value();
    change(json);
    ASSERT_OK(store_.put(key, as_bytes(dump_json(json)), {}));
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  MemoryBlobs store_{clock_};
  std::string path_ = [this] {
    std::filesystem::create_directories(dir_.file("agents"));
    return dir_.file("agents/planner.db");
  }();
};

TEST_F(PushedTest, WhatWasPushedComesBackWithItsCheckpoints) {
  PushReport pushed = push();
  EXPECT_EQ(pushed.state.checkpoints.size(), 1U);
  EXPECT_EQ(pushed.state.checkpoints[0].name, "before");
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("three")));
  ASSERT_OK(pull());
  EXPECT_EQ(first(), "two");
  auto agent = open(path_);
  ASSERT_OK(restore_checkpoint(*agent, get_checkpoint(*agent, "before")->id));
  EXPECT_EQ(read_file(agent->fs(), "/first").value(), "one");
  EXPECT_EQ(count_leftovers(), 0U);
}

TEST_F(PushedTest, OnlyWhatIsNotThereYetIsSent) {
  PushReport whole = push();
  EXPECT_GT(whole.bytes_sent, 1U << 20);
  PushReport nothing = push();
  EXPECT_EQ(nothing.blocks_sent, 0U);
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("four")));
  PushReport little = push();
  EXPECT_GT(little.blocks_sent, 0U);
  EXPECT_LT(little.bytes_sent, whole.bytes_sent / 4);
  EXPECT_EQ(list_pushed(store_, "planner").value(),
            (std::vector<std::string>{whole.state.name, nothing.state.name, little.state.name}));
}

TEST_F(PushedTest, AnOlderStateCanBePulled) {
  PushReport older = push();
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("newer")));
  push();
  ASSERT_OK(pull(older.state.name));
  EXPECT_EQ(first(), "two");
  ASSERT_OK(pull());
  EXPECT_EQ(first(), "newer");
}

TEST_F(PushedTest, TheNewestPushIsTheNewestStateThoughTheClockWasSetBack) {
  push();
  clock_.jump_to(Timestamp{1000, 0});
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("newest")));
  push_agent(*open(path_), store_, clock_).take_value();
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("changed")));
  ASSERT_OK(pull());
  EXPECT_EQ(first(), "newest");
}

TEST_F(PushedTest, AnExistingAgentIsReplacedOnlyIfThatIsAskedFor) {
  push();
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("mine")));
  EXPECT_EQ(error_of(pull(std::nullopt, Replace::kNo)), Code::kExists);
  EXPECT_EQ(first(), "mine");
}

TEST_F(PushedTest, AChangedOrMissingBlockIsFoundAndTheAgentStaysAsItIs) {
  push();
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("mine")));
  for (const std::string& key : keys("planner/blocks/")) {
    std::string content = store_.get(key).value()->content;
    std::string changed = content;
    changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
    ASSERT_OK(store_.put(key, as_bytes(changed), {}));
    EXPECT_EQ(error_of(pull()), Code::kCorrupt) << key;
    ASSERT_OK(store_.put(key, as_bytes(content.substr(1)), {}));
    EXPECT_EQ(error_of(pull()), Code::kCorrupt) << key;
    ASSERT_OK(store_.remove(key));
    EXPECT_EQ(error_of(pull()), Code::kCorrupt) << key;
    ASSERT_OK(store_.put(key, as_bytes(content), {}));
  }
  EXPECT_EQ(first(), "mine");
  EXPECT_EQ(count_leftovers(), 0U);
}

TEST_F(PushedTest, WhatOnlyLooksLikeABlockIsSentAgain) {
  PushReport first_push = push();
  std::vector<std::string> blocks = keys("planner/blocks/");
  ASSERT_GT(blocks.size(), 2U);
  ASSERT_OK(store_.put(blocks[0], as_bytes("half"), {}));
  std::string content = store_.get(blocks[1]).value()->content;
  ASSERT_OK(store_.remove(blocks[1]));
  ASSERT_OK(store_.put("planner/blocks/zz/" + blocks[1].substr(blocks[1].rfind('/') + 1), as_bytes(content), {}));
  EXPECT_EQ(push().blocks_sent, 2U);
  ASSERT_OK(pull());
  EXPECT_EQ(first(), "two");
}

TEST_F(PushedTest, ABlockWithAnotherContentIsSentAgainByAPushThatVerifies) {
  std::string older = push().state.name;
  std::string block = keys("planner/blocks/").front();
  std::string content = store_.get(block).value()->content;
  content[7] = static_cast<char>(content[7] ^ 1);
  ASSERT_OK(store_.put(block, as_bytes(content), {}));
  EXPECT_EQ(push().blocks_sent, 0U);
  Status damaged = pull();
  EXPECT_EQ(error_of(damaged), Code::kCorrupt);
  EXPECT_THAT(damaged.error().message(), HasSubstr(block.substr(block.rfind('/') + 1)));
  EXPECT_THAT(damaged.error().hint(), HasSubstr("push ADDRESS --verify"));

  clock_.advance_ns(1'000'000'000);
  PushReport verified = push_agent(*open(path_), store_, clock_, {.stored = StoredBlocks::kVerify}).take_value();
  EXPECT_EQ(verified.blocks_mended, 1U);
  EXPECT_EQ(verified.blocks_sent, 1U);
  EXPECT_OK(pull());
  EXPECT_OK(pull(older));  // it has the same block
  verified = push_agent(*open(path_), store_, clock_, {.stored = StoredBlocks::kVerify}).take_value();
  EXPECT_EQ(verified.blocks_mended, 0U);
}

TEST_F(PushedTest, APushNamesTheFaultForWhichAPullRefusesIt) {
  {
    auto database = Database::open(path_, {.mode = OpenMode::kReadWrite}).take_value();
    ASSERT_OK(database->execute(
        "UPDATE fs_inode SET nlink = 7 WHERE ino = (SELECT ino FROM fs_dentry WHERE name = 'first')"));
  }
  PushReport pushed = push();
  EXPECT_EQ(pushed.faults.count, 1U);
  EXPECT_TRUE(pushed.faults.are_repairable);
  EXPECT_THAT(pushed.faults.text(), HasSubstr("link count 7"));
  Status refused = pull();
  EXPECT_EQ(error_of(refused), Code::kCorrupt);
  EXPECT_THAT(refused.error().message(), HasSubstr(pushed.faults.text()));
  EXPECT_THAT(refused.error().message(), Not(HasSubstr("draft")));
  EXPECT_THAT(refused.error().hint(), HasSubstr("--unchecked"));
  EXPECT_EQ(count_leftovers(), 0U);

  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("lost")));
  PullOptions options{.agent_id = "planner", .state = {}, .id = path_, .replace = Replace::kYes};
  options.faulty = FaultyCopy::kTake;
  Result<PullReport> taken = pull_agent(store_, options, clock_);
  ASSERT_OK(taken);
  EXPECT_EQ(taken->faults.first, pushed.faults.first);
  EXPECT_EQ(first(), "two");
  ASSERT_OK(repair_agent(path_, clock_));
  EXPECT_EQ(push().faults.count, 0U);
}

TEST_F(PushedTest, ADamagedStateDoesNotHideOthers) {
  std::string name = push().state.name;
  ASSERT_OK(store_.put("planner/states/" + name, as_bytes("{"), {}));
  Result<PushedState> damaged = get_pushed(store_, "planner", name);
  EXPECT_EQ(error_of(damaged), Code::kCorrupt);
  EXPECT_TRUE(is_about_one_state(damaged.error()));
  EXPECT_THAT(damaged.error().hint(), HasSubstr("--state"));
  EXPECT_FALSE(is_about_one_state(Error(Code::kUnavailable, "no answer")));
  push();
  ASSERT_OK(pull());
}

TEST_F(PushedTest, ManyPushesWithAClockThatWasSetBackKeepTheirOrder) {
  push();
  clock_.jump_to(Timestamp{1000, 0});
  for (int nth = 0; nth < 25; ++nth) {
    ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes(std::to_string(nth))));
    PushReport pushed = push_agent(*open(path_), store_, clock_).take_value();
    EXPECT_EQ(list_pushed(store_, "planner")->back(), pushed.state.name);
  }
  ASSERT_OK(pull());
  EXPECT_EQ(first(), "24");
}

TEST_F(PushedTest, AForgedStateIsRefused) {
  PushReport pushed = push();
  const std::string good = store_.get("planner/states/" + pushed.state.name).value()->content;
  const std::vector<std::function<void(Json&)>> forgeries{
      [](Json& json) { json.erase("version"); },
      [](Json& json) { json["size_bytes"] = -1; },
      [](Json& json) { json["size_bytes"] = 0; },
      [](Json& json) { json["size_bytes"] = UINT64_MAX; },
      [](Json& json) { json["size_bytes"] = json["size_bytes"].get<std::uint64_t>() + (1 << 20); },
      [](Json& json) { json["block_bytes"] = 0; },
      [](Json& json) { json["block_bytes"] = UINT64_MAX; },
      [](Json& json) { json["sha256"] = std::string(64, '0'); },
      [](Json& json) { json.erase("blocks"); },
      [](Json& json) { json["blocks"][0] = "../../../other/blocks/00/0"; },
      [](Json& json) { json["blocks"][0] = 7; },
      [](Json& json) { std::swap(json["blocks"][0], json["blocks"][1]); },
  };
  for (std::size_t nth = 0; nth < forgeries.size(); ++nth) {
    edit_state(pushed.state.name, forgeries[nth]);
    EXPECT_EQ(error_of(pull()), Code::kCorrupt) << nth;
    ASSERT_OK(store_.put("planner/states/" + pushed.state.name, as_bytes(good), {}));
  }
  edit_state(pushed.state.name, [](Json& json) { json["version"] = 2; });
  EXPECT_EQ(error_of(pull()), Code::kUnsupported);
  EXPECT_EQ(first(), "two");
}

TEST_F(PushedTest, WhatIsNotThereIsSaid) {
  Status none = pull();
  EXPECT_EQ(error_of(none), Code::kNotFound);
  EXPECT_THAT(none.error().message(), HasSubstr("nothing was pushed as 'planner'"));
  push();
  EXPECT_EQ(error_of(pull("20200101T000000.000000Z")), Code::kNotFound);
  EXPECT_EQ(error_of(pull("../x")), Code::kNotFound);
  EXPECT_EQ(error_of(list_pushed(store_, "a/b")), Code::kInvalid);
}

// A second agent of the same name, elsewhere.
TEST_F(PushedTest, AnotherAgentOfTheSameNameIsNotPushedAmongItsStates) {
  PushReport mine = push();
  EXPECT_TRUE(mine.state.identity.has_value());
  std::filesystem::create_directories(dir_.file("elsewhere"));
  std::string other = dir_.file("elsewhere/planner.db");
  Store::open(other, {.mode = OpenMode::kCreate}, clock_).take_value();
  EXPECT_EQ(error_of(push_agent(*open(other), store_, clock_)), Code::kConflict);
  EXPECT_EQ(keys("planner/states/").size(), 1U);
  std::string copy = dir_.file("elsewhere/copy.db");
  ASSERT_OK(open(path_)->backup_to(copy));
  std::filesystem::rename(copy, other);
  EXPECT_EQ(push_agent(*open(other), store_, clock_)->state.identity, mine.state.identity);
}

TEST_F(PushedTest, OfTwoAgentsThatArePushedForTheFirstTimeAtOnceOnlyOneIsThere) {
  std::filesystem::create_directories(dir_.file("elsewhere"));
  std::string other = dir_.file("elsewhere/planner.db");
  Store::open(other, {.mode = OpenMode::kCreate}, clock_).take_value();
  PushOptions meanwhile;
  std::optional<std::string> theirs;
  meanwhile.progress = [&](std::uint64_t, std::uint64_t) {  // the store was empty when the push began
    if (theirs) return;
    clock_.advance_ns(1'000'000'000);
    theirs = push_agent(*open(other), store_, clock_)->state.identity;
  };
  EXPECT_EQ(error_of(push_agent(*open(path_), store_, clock_, meanwhile)), Code::kConflict);
  std::vector<std::string> names = list_pushed(store_, "planner").value();
  ASSERT_EQ(names.size(), 1U);
  EXPECT_EQ(get_pushed(store_, "planner", names[0])->identity, theirs);
  EXPECT_OK(push_agent(*open(other), store_, clock_));
}

TEST_F(PushedTest, ADamagedNewestStateDoesNotLetAnotherAgentIn) {
  push();
  std::string newest = push().state.name;
  ASSERT_OK(store_.put("planner/states/" + newest, as_bytes("{"), {}));
  std::filesystem::create_directories(dir_.file("elsewhere"));
  std::string other = dir_.file("elsewhere/planner.db");
  Store::open(other, {.mode = OpenMode::kCreate}, clock_).take_value();
  EXPECT_EQ(error_of(push_agent(*open(other), store_, clock_)), Code::kConflict);
  EXPECT_EQ(keys("planner/states/").size(), 2U);
  EXPECT_FALSE(push().follows_unmarked);
}

TEST_F(PushedTest, AnAgentIsReplacedByAnotherOneOnlyIfThatIsAskedFor) {
  std::string name = push().state.name;
  ASSERT_OK(write_file(open(path_)->fs(), "/first", as_bytes("mine")));
  edit_state(name, [](Json& state) { state["identity"] = std::string(32, 'a'); });
  EXPECT_EQ(error_of(pull()), Code::kConflict);
  EXPECT_EQ(first(), "mine");
  PullOptions options{.agent_id = "planner", .state = {}, .id = path_, .replace = Replace::kYes};
  options.replace_another = Replace::kYes;
  ASSERT_OK(pull_agent(store_, options, clock_));
  EXPECT_EQ(first(), "two");
}

TEST_F(PushedTest, AStateOfAnOlderVersionIsTakenForThisAgents) {
  std::string name = push().state.name;
  edit_state(name, [](Json& state) { state.erase("identity"); });
  EXPECT_TRUE(push().follows_unmarked);
  EXPECT_FALSE(push().follows_unmarked);
  ASSERT_OK(pull(name));
  edit_state(name, [](Json& state) { state["identity"] = "../x"; });
  EXPECT_EQ(error_of(pull(name)), Code::kCorrupt);
}

}  // namespace
}  // namespace warren
