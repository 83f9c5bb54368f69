// The public API as users see it: includes no internal headers except fakes.
#include <warren/agent.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

class ApiTest : public ::testing::Test {
 protected:
  std::unique_ptr<Agent> open(AgentOptions options = {}) {
    if (options.id.empty() && options.path.empty()) options.path = dir_.file("a.db");
    auto agent = Agent::open(options);
    EXPECT_OK(agent);
    return agent.ok() ? std::move(agent).take_value() : nullptr;
  }

  testing::TempDir dir_;
};

TEST_F(ApiTest, OpeningAMissingAgentCreatesIt) {
  std::string path = dir_.file("a.db");
  ASSERT_OK(Agent::open({.path = path}));
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
}

TEST_F(ApiTest, OpeningAMissingAgentFailsIfRequested) {
  EXPECT_EQ(error_of(Agent::open({.path = dir_.file("a.db"), .if_missing = IfMissing::kFail})), Code::kNotFound);
  EXPECT_EQ(error_of(Agent::open({.path = dir_.file("a.db"), .mode = Mode::kReadOnly})), Code::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(ApiTest, AnAgentIsOpenedByExactlyOneOfIdAndPath) {
  EXPECT_EQ(error_of(Agent::open({})), Code::kInvalid);
  EXPECT_EQ(error_of(Agent::open({.id = "a", .path = "b"})), Code::kInvalid);
  EXPECT_EQ(error_of(Agent::open({.id = "../a"})), Code::kInvalid);
}

TEST_F(ApiTest, AFileThatIsNotAnAgentIsRefusedAndNotChanged) {
  std::string path = dir_.file("notes.txt");
  std::ofstream(path) << "plain text, longer than a header would be";
  EXPECT_EQ(error_of(Agent::open({.path = path})), Code::kCorrupt);
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "plain text, longer than a header would be");
}

TEST_F(ApiTest, ACheckpointBringsFilesAndKeysBack) {
  auto agent = open();
  ASSERT_OK(agent->files().write_file("/notes", "then"));
  ASSERT_OK(agent->kv().set("step", "1"));
  auto taken = agent->checkpoint("before");
  ASSERT_OK(taken);
  EXPECT_EQ(taken->name, "before");
  ASSERT_OK(agent->files().write_file("/notes", "now"));
  ASSERT_OK(agent->kv().set("step", "2"));
  auto undo = agent->restore("before");
  ASSERT_OK(undo);
  EXPECT_EQ(agent->files().read_file("/notes").value(), "then");
  EXPECT_EQ(agent->kv().get("step").value(), "1");
  ASSERT_OK(agent->restore(std::to_string(undo->id)));
  EXPECT_EQ(agent->files().read_file("/notes").value(), "now");
  ASSERT_EQ(agent->checkpoints()->size(), 3u);
  ASSERT_OK(agent->remove_checkpoint("before"));
  EXPECT_EQ(error_of(agent->restore("before")), Code::kNotFound);
  EXPECT_EQ(error_of(agent->checkpoint("a/b")), Code::kInvalid);
  auto unit = agent->begin_unit();
  ASSERT_OK(unit);
  ASSERT_OK(agent->files().write_file("/notes", "in a unit"));
  EXPECT_EQ(error_of(agent->checkpoint("within")), Code::kInvalid);
}

TEST_F(ApiTest, ManyOpenersOfAMissingAgentGetTheSameOne) {
  std::array<std::thread, 8> openers;
  for (std::size_t i = 0; i < openers.size(); ++i) {
    openers[i] = std::thread([this, i] {
      auto agent = Agent::open({.path = dir_.file("a.db")});
      ASSERT_OK(agent);
      EXPECT_OK((*agent)->kv().set("opener-" + std::to_string(i), "1"));
    });
  }
  for (std::thread& opener : openers) opener.join();
  auto keys = open()->kv().keys();
  ASSERT_OK(keys);
  EXPECT_EQ(keys->size(), openers.size());
}

TEST_F(ApiTest, WrittenDataIsThereAfterReopening) {
  {
    auto agent = open();
    EXPECT_OK(agent->files().write_file("/a/b.txt", "hello"));
    EXPECT_OK(agent->kv().set("k", R"({"x": 1})"));
    EXPECT_OK(agent->tools().record({.name = "search", .started_at = 10, .completed_at = 12, .result = "[1]"}));
  }
  auto agent = open({.path = dir_.file("a.db"), .mode = Mode::kReadOnly});
  EXPECT_EQ(agent->files().read_file("/a/b.txt").value(), "hello");
  EXPECT_EQ(agent->kv().get("k").value(), R"({"x": 1})");
  EXPECT_EQ(agent->tools().list().value().at(0).duration_ms, 2000);
  EXPECT_EQ(error_of(agent->files().write_file("/c", "")), Code::kReadOnly);
}

TEST_F(ApiTest, FilesHaveNamesLinksAndAttributes) {
  auto agent = open();
  Files files = agent->files();
  EXPECT_OK(files.make_dir("/d"));
  EXPECT_EQ(error_of(files.make_dir("/d")), Code::kExists);
  EXPECT_OK(files.make_dirs("/d/e/f"));
  EXPECT_OK(files.write_file("/d/one", "1"));
  EXPECT_OK(files.link("/d/one", "/d/two"));
  EXPECT_OK(files.make_symlink("one", "/d/sym"));
  EXPECT_EQ(files.read_dir("/d").value(), (std::vector<std::string>{"e", "one", "sym", "two"}));
  EXPECT_EQ(files.stat("/d/sym").value().nlink, 2U);
  EXPECT_TRUE(files.lstat("/d/sym").value().is_symlink());
  EXPECT_EQ(files.read_link("/d/sym").value(), "one");
  EXPECT_OK(files.set_mode("/d/one", 0600));
  EXPECT_OK(files.set_times("/d/one", {.seconds = 1}, {.seconds = 2, .nanoseconds = 3}));
  Attributes two = files.stat("/d/two").value();
  EXPECT_TRUE(two.is_file());
  EXPECT_EQ(two.mode & 07777U, 0600U);
  EXPECT_EQ(two.mtime, (Timestamp{.seconds = 2, .nanoseconds = 3}));
  auto entries = files.read_dir_plus("/d").value();
  EXPECT_EQ(entries.at(0).name, "e");
  EXPECT_TRUE(entries.at(0).attributes.is_directory());
}

TEST_F(ApiTest, NamesAreMovedCopiedAndRemoved) {
  auto agent = open();
  Files files = agent->files();
  EXPECT_OK(files.write_file("/a", "A"));
  EXPECT_OK(files.append_file("/a", "+"));
  EXPECT_OK(files.copy_file("/a", "/b"));
  EXPECT_EQ(error_of(files.rename("/a", "/b", RenameMode::kNoReplace)), Code::kExists);
  EXPECT_OK(files.write_file("/b", "B"));
  EXPECT_OK(files.rename("/a", "/b", RenameMode::kExchange));
  EXPECT_EQ(files.read_file("/a").value(), "B");
  EXPECT_EQ(files.read_file("/b").value(), "A+");
  EXPECT_OK(files.truncate("/b", 1));
  EXPECT_EQ(files.read_file("/b").value(), "A");
  EXPECT_OK(files.unlink("/b"));
  EXPECT_FALSE(files.exists("/b").value());
  EXPECT_OK(files.write_file("/t/u/v", ""));
  EXPECT_EQ(error_of(files.remove_dir("/t")), Code::kNotEmpty);
  EXPECT_EQ(error_of(files.remove("/t")), Code::kIsDirectory);
  EXPECT_OK(files.remove("/t", {.recursive = Recursive::kYes}));
  EXPECT_EQ(error_of(files.remove("/t")), Code::kNotFound);
  EXPECT_OK(files.remove("/t", {.force = Force::kYes}));
}

TEST_F(ApiTest, ExtendedAttributesAreKept) {
  auto agent = open();
  Files files = agent->files();
  EXPECT_OK(files.write_file("/f", ""));
  EXPECT_OK(files.set_xattr("/f", "user.source", "web"));
  EXPECT_EQ(files.get_xattr("/f", "user.source").value(), "web");
  EXPECT_EQ(files.list_xattrs("/f").value(), std::vector<std::string>{"user.source"});
  EXPECT_OK(files.remove_xattr("/f", "user.source"));
  EXPECT_EQ(error_of(files.get_xattr("/f", "user.source")), Code::kNoData);
}

TEST_F(ApiTest, AnOpenFileOutlivesItsName) {
  auto agent = open();
  auto opened = agent->files().open("/f", {.access = FileAccess::kReadWrite, .create = Create::kIfMissing});
  ASSERT_OK(opened);
  File& file = **opened;
  EXPECT_OK(agent->files().unlink("/f"));
  EXPECT_OK(file.write_at(3, "xyz"));
  EXPECT_EQ(file.append("!").value(), 6U);
  std::array<char, 16> buffer{};
  EXPECT_EQ(file.read_at(0, buffer).value(), 7U);
  EXPECT_EQ(std::string(buffer.data(), 7), std::string("\0\0\0xyz!", 7));
  EXPECT_EQ(file.attributes().value().nlink, 0U);
  EXPECT_OK(file.truncate(1));
  EXPECT_OK(file.sync());
  EXPECT_OK(file.close());
  EXPECT_EQ(error_of(file.write_at(0, "x")), Code::kBadHandle);
}

TEST_F(ApiTest, AFileOpenedForReadingCannotBeWritten) {
  auto agent = open();
  EXPECT_OK(agent->files().write_file("/f", "x"));
  auto file = agent->files().open("/f");
  ASSERT_OK(file);
  EXPECT_EQ(error_of((*file)->write_at(0, "y")), Code::kBadHandle);
}

TEST_F(ApiTest, ValuesAreJsonAndCanBeCompared) {
  auto agent = open();
  KeyValue kv = agent->kv();
  EXPECT_EQ(error_of(kv.set("k", "not json")), Code::kInvalid);
  EXPECT_EQ(kv.find("k").value(), std::nullopt);
  EXPECT_EQ(error_of(kv.get("k")), Code::kNotFound);
  EXPECT_OK(kv.compare_and_set("k", std::nullopt, "1"));
  EXPECT_EQ(error_of(kv.compare_and_set("k", std::nullopt, "2")), Code::kConflict);
  EXPECT_OK(kv.compare_and_set("k", "1", "2"));
  EXPECT_OK(kv.set("kept", "true", std::chrono::hours(1)));
  EXPECT_EQ(kv.keys({.prefix = "k"}).value(), (std::vector<std::string>{"k", "kept"}));
  EXPECT_TRUE(kv.list({.after = "k"}).value().at(0).expires_at_ms.has_value());
  EXPECT_TRUE(kv.remove("k").value());
  EXPECT_FALSE(kv.remove("k").value());
}

TEST_F(ApiTest, ACallIsStartedAndFinishedOnce) {
  auto agent = open();
  ToolCalls tools = agent->tools();
  std::int64_t parent = tools.start("plan").value();
  std::int64_t id = tools.start("search", R"({"q": "x"})", {.session = "s", .parent_id = parent}).value();
  EXPECT_OK(tools.succeed(id, "[]"));
  EXPECT_EQ(error_of(tools.fail(id, "late")), Code::kConflict);
  EXPECT_EQ(error_of(tools.succeed(id + 1000)), Code::kNotFound);
  EXPECT_OK(tools.fail(parent, "gave up"));
  ToolCall call = tools.get(id).value();
  EXPECT_EQ(call.status, CallStatus::kSuccess);
  EXPECT_EQ(call.parameters, R"({"q": "x"})");
  EXPECT_EQ(call.details.session, "s");
  EXPECT_EQ(call.details.parent_id, parent);
  EXPECT_TRUE(call.duration_ns.has_value());
  EXPECT_EQ(tools.list({.status = CallStatus::kError}).value().at(0).error, "gave up");
  EXPECT_EQ(tools.stats().value().size(), 2U);
  EXPECT_EQ(tools.stats_for("search").value()->successful, 1);
  EXPECT_FALSE(tools.stats_for("never").value().has_value());
}

TEST_F(ApiTest, AUnitIsCommittedCompletelyOrNotAtAll) {
  auto agent = open();
  {
    auto unit = agent->begin_unit();
    ASSERT_OK(unit);
    EXPECT_OK(agent->files().write_file("/f", "x"));
    EXPECT_OK(agent->kv().set("k", "1"));
  }
  EXPECT_FALSE(agent->files().exists("/f").value());
  EXPECT_EQ(agent->kv().find("k").value(), std::nullopt);
  auto unit = agent->begin_unit();
  ASSERT_OK(unit);
  EXPECT_OK(agent->files().write_file("/f", "x"));
  EXPECT_OK(agent->kv().set("k", "1"));
  EXPECT_OK((*unit)->commit());
  EXPECT_EQ(error_of((*unit)->commit()), Code::kInvalid);
  auto other = open();
  EXPECT_EQ(other->files().read_file("/f").value(), "x");
  EXPECT_EQ(other->kv().get("k").value(), "1");
}

TEST_F(ApiTest, ABackupIsASeparateAgent) {
  auto agent = open();
  EXPECT_OK(agent->files().write_file("/f", "before"));
  EXPECT_OK(agent->backup(dir_.file("copy.db")));
  EXPECT_OK(agent->files().write_file("/f", "after"));
  EXPECT_EQ(error_of(agent->backup(dir_.file("copy.db"))), Code::kExists);
  EXPECT_EQ(open({.path = dir_.file("copy.db")})->files().read_file("/f").value(), "before");
}

TEST_F(ApiTest, AnAgentInMemoryLeavesNoFile) {
  auto agent = open({.path = ":memory:"});
  EXPECT_OK(agent->files().write_file("/f", "x"));
  EXPECT_EQ(agent->files().stats().value().used_inodes, 2U);
  EXPECT_FALSE(std::filesystem::exists(":memory:"));
  EXPECT_EQ(error_of(open({.path = ":memory:"})->files().read_file("/f")), Code::kNotFound);
}

TEST(Version, TheLibraryKnowsItsVersion) { EXPECT_STREQ(version(), WARREN_VERSION); }

}  // namespace
}  // namespace warren
