// agent->vfs() as users see it: sections of RFC-002 are named in the tests.
#include <warren/agent.h>

#include <chrono>
#include <future>
#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

class VfsApiTest : public ::testing::Test {
 protected:
  testing::TempDir dir_;
  std::unique_ptr<Agent> agent_ = Agent::open({.path = dir_.file("a.db")}).value();
  Vfs vfs_ = agent_->vfs();
  Vfs operator_ = agent_->vfs({.space = Space::kKernel});
};

TEST_F(VfsApiTest, S2_1_EveryAgentHasTheHierarchy) {
  EXPECT_EQ(vfs_.list("/").value(), (std::vector<std::string>{"audit", "ipc", "mem", "policy", "state"}));
  EXPECT_EQ(vfs_.list("/mem").value(), (std::vector<std::string>{"episodic", "semantic", "working"}));
  EXPECT_EQ(vfs_.mounts().value().size(), 3U);
}

TEST_F(VfsApiTest, S2_3_PathsAreRelativeOrAbsoluteAndNeverLeaveTheNamespace) {
  ASSERT_OK(vfs_.write("mem/working/task", "x"));
  EXPECT_EQ(vfs_.read("/agent/a/mem/working/task").value(), "x");
  EXPECT_EQ(vfs_.read("/../../mem/./working//task").value(), "x");
  EXPECT_EQ(error_of(vfs_.read("/agent/b/mem/working/task")), Code::kDenied);
  EXPECT_EQ(error_of(vfs_.read("/mem/../agent/b/x")), Code::kDenied);
}

TEST_F(VfsApiTest, S3_1_ReadWriteExistsListRemove) {
  ASSERT_OK(vfs_.write("/state/deep/er/f", "one"));
  ASSERT_OK(vfs_.append("/state/deep/er/f", " two"));
  EXPECT_EQ(vfs_.read("/state/deep/er/f").value(), "one two");
  EXPECT_TRUE(vfs_.exists("/state/deep/er/f").value());
  EXPECT_EQ(vfs_.stat("/state/deep/er/f").value().attributes.size, 7U);
  EXPECT_EQ(error_of(vfs_.remove("/state/deep")), Code::kIsDirectory);
  ASSERT_OK(vfs_.remove("/state/deep", {.recursive = Recursive::kYes}));
  EXPECT_FALSE(vfs_.exists("/state/deep/er/f").value());
  EXPECT_EQ(error_of(vfs_.read("/state/deep/er/f")), Code::kNotFound);
}

TEST_F(VfsApiTest, S3_2_JsonIsCheckedAndTextAndBytesAreKept) {
  EXPECT_EQ(error_of(vfs_.write("/mem/working/c.json", "{not json")), Code::kInvalid);
  ASSERT_OK(vfs_.write("/mem/working/c.json", R"({"key": "value"})"));
  EXPECT_EQ(vfs_.read("/mem/working/c.json").value(), R"({"key": "value"})");
  ASSERT_OK(vfs_.write("/mem/working/c.json", "{not json", {.as_is = true}));
  ASSERT_OK(vfs_.append("/mem/episodic/log.jsonl", "{\"n\":\n1}"));
  ASSERT_OK(vfs_.append("/mem/episodic/log.jsonl", "2"));
  EXPECT_EQ(vfs_.read("/mem/episodic/log.jsonl").value(), "{\"n\":1}\n2\n");
  std::string bytes("\0\xff\n", 3);
  ASSERT_OK(vfs_.write("/mem/working/model.bin", bytes));
  EXPECT_EQ(vfs_.read("/mem/working/model.bin").value(), bytes);
}

TEST_F(VfsApiTest, S3_3_TheAgentAndItsOperatorHaveDifferentRights) {
  EXPECT_EQ(error_of(vfs_.write("/policy/rules.yaml", "x")), Code::kDenied);
  ASSERT_OK(operator_.write("/policy/rules.yaml", "x"));
  EXPECT_EQ(vfs_.read("/policy/rules.yaml").value(), "x");
  ASSERT_OK(operator_.write("/ipc/inbox/1", "hello"));
  EXPECT_EQ(error_of(operator_.read("/ipc/inbox/1")), Code::kDenied);
  EXPECT_EQ(vfs_.read("/ipc/inbox/1").value(), "hello");
  EXPECT_EQ(error_of(vfs_.write("/mem/working/../../policy/x", "y")), Code::kDenied);
}

TEST_F(VfsApiTest, TheFilesBelowHaveTheSameRules) {
  Files files = vfs_.files().value();
  ASSERT_OK(files.write_file("/mem/working/f", "x"));
  EXPECT_EQ(vfs_.read("/mem/working/f").value(), "x");
  EXPECT_EQ(error_of(files.write_file("/policy/f", "x")), Code::kDenied);
  ASSERT_OK(files.append_file("/mem/episodic/log", "x"));
  EXPECT_EQ(error_of(files.truncate("/mem/episodic/log", 0)), Code::kDenied);
  EXPECT_EQ(error_of(files.rename("/mem/working/f", "/state/f")), Code::kCrossDevice);
}

TEST_F(VfsApiTest, S2_2_WorkingMemoryEndsWithTheAgentObjectAndTheRestLasts) {
  const std::vector<std::string> lasting{"/mem/episodic", "/mem/semantic", "/state", "/ipc/outbox"};
  ASSERT_OK(vfs_.write("/mem/working/f", "x"));
  for (const std::string& dir : lasting) ASSERT_OK(vfs_.write(dir + "/f", "x"));
  ASSERT_OK(operator_.write("/policy/f", "x"));
  auto again = Agent::open({.path = dir_.file("a.db")}).value();
  EXPECT_FALSE(again->vfs().exists("/mem/working/f").value());
  for (const std::string& dir : lasting) EXPECT_TRUE(again->vfs().exists(dir + "/f").value()) << dir;
  EXPECT_TRUE(again->vfs().exists("/policy/f").value());
}

TEST_F(VfsApiTest, WhatAnotherProcessChangesHoldsForTheNextCall) {
  ASSERT_OK(vfs_.write("/mem/working/f", "x"));
  auto other = Agent::open({.path = dir_.file("a.db")}).value();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(vfs_.read("/mem/working/f").value(), "x");
    ASSERT_OK(other->files().write_file(
        "/policy/active.json",
        R"({"version": 1, "rules": [{"path": "/mem/working/**", "operation": "read", "effect": "deny"}]})"));
    EXPECT_EQ(error_of(vfs_.read("/mem/working/f")), Code::kDenied);
    ASSERT_OK(other->files().unlink("/policy/active.json"));
  }
  Attributes before = vfs_.stat("/mem").value().attributes;
  ASSERT_OK(other->files().make_dir("/mem/more"));
  EXPECT_NE(vfs_.stat("/mem").value().attributes.mtime, before.mtime);
  EXPECT_EQ(vfs_.read("/mem/working/f").value(), "x");
}

// The first call opens the namespace, which needs what a unit holds.
TEST_F(VfsApiTest, FirstCallsInsideAUnitAndBesideItDoNotWaitForEachOther) {
  for (int round = 0; round < 20; ++round) {
    auto agent = Agent::open({.path = dir_.file("b.db")}).value();
    std::promise<void> is_in_unit;
    std::thread inside([&] {
      auto unit = agent->begin_unit().value();
      is_in_unit.set_value();
      EXPECT_OK(agent->vfs().write("/state/inside", "x"));
      EXPECT_OK(unit->commit());
    });
    is_in_unit.get_future().wait();
    EXPECT_OK(agent->vfs().write("/state/beside", "x"));
    inside.join();
    EXPECT_EQ(agent->vfs().read("/state/inside").value(), "x");
    EXPECT_EQ(agent->vfs().read("/state/beside").value(), "x");
  }
}

TEST_F(VfsApiTest, ATimeToLiveIsShownAndKept) {
  using std::chrono::milliseconds;
  for (const char* path : {"/mem/working/f", "/mem/semantic/f"}) {
    ASSERT_OK(vfs_.write(path, "x", {.time_to_live = std::chrono::hours(1)}));
    EXPECT_TRUE(vfs_.stat(path).value().expires_at_ms.has_value()) << path;
    ASSERT_OK(vfs_.write(path, "x"));
    EXPECT_FALSE(vfs_.stat(path).value().expires_at_ms.has_value()) << path;
    ASSERT_OK(vfs_.write(path, "x", {.time_to_live = milliseconds(1)}));
    while (vfs_.exists(path).value()) std::this_thread::yield();
    EXPECT_EQ(error_of(vfs_.read(path)), Code::kNotFound);
  }
  EXPECT_EQ(error_of(vfs_.write("/state/f", "x", {.time_to_live = milliseconds(0)})), Code::kInvalid);
  EXPECT_EQ(error_of(vfs_.write("/mem/episodic/f", "x", {.time_to_live = milliseconds(9)})), Code::kInvalid);
  EXPECT_FALSE(vfs_.exists("/mem/episodic/f").value());
  ASSERT_OK(agent_->files().write_file("/f", "x", milliseconds(1)));
  while (agent_->files().exists("/f").value()) std::this_thread::yield();
}

TEST_F(VfsApiTest, S1_2_MountsAreConfiguredInCode) {
  std::vector<VfsMountOptions> mounts{{.path = "/mem/notes", .backend = "sqlite:" + dir_.file("notes.db")},
                                      {.path = "/mem/episodic", .backend = "memory:"}};
  auto agent = Agent::open({.path = dir_.file("b.db"), .mounts = mounts}).value();
  ASSERT_OK(agent->vfs().write("/mem/notes/day/1.json", R"({"n": 1})"));
  ASSERT_OK(agent->vfs().append("/mem/episodic/log", "one"));
  EXPECT_EQ(error_of(agent->vfs().remove("/mem/episodic/log")), Code::kDenied) << "rights go by path";
  EXPECT_EQ(agent->vfs().mounts().value().size(), 5U);
  agent.reset();
  agent = Agent::open({.path = dir_.file("b.db"), .mounts = mounts}).value();
  EXPECT_EQ(agent->vfs().read("/agent/b/mem/notes/day/1.json").value(), R"({"n": 1})");
  EXPECT_FALSE(agent->vfs().exists("/mem/episodic/log").value());
  agent = Agent::open({.path = dir_.file("b.db")}).value();
  EXPECT_FALSE(agent->vfs().exists("/mem/notes").value());
}

TEST_F(VfsApiTest, S3_1_CheckpointsAreTakenAndListedInTheNamespace) {
  ASSERT_OK(vfs_.write("/state/plan", "first"));
  EXPECT_TRUE(vfs_.list("/state/checkpoints")->empty());
  ASSERT_OK(vfs_.write("/state/checkpoints/before", ""));
  EXPECT_EQ(vfs_.list("/state/checkpoints").value(), std::vector<std::string>{"before"});
  EXPECT_NE(vfs_.read("/state/checkpoints/before")->find("\"id\": 1"), std::string::npos);
  ASSERT_OK(vfs_.write("/state/plan", "second"));
  ASSERT_OK(agent_->restore("before"));
  EXPECT_EQ(vfs_.read("/state/plan").value(), "first");
  // Of the same name once more, and by other means.
  ASSERT_OK(agent_->checkpoint("before"));
  EXPECT_EQ(vfs_.list("/state/checkpoints").value(),
            (std::vector<std::string>{"before", "before-restore-of-1", "before@1"}));
  for (Vfs* door : {&vfs_, &operator_}) {
    EXPECT_EQ(error_of(door->remove("/state/checkpoints/before")), Code::kDenied);
    EXPECT_EQ(error_of(door->write("/state/checkpoints/before", "")), Code::kDenied);
    EXPECT_EQ(error_of(door->write("/state/checkpoints/full", "text")), Code::kDenied);
    EXPECT_EQ(error_of(door->write("/state/checkpoints/12", "")), Code::kInvalid);
    EXPECT_EQ(error_of(door->write("/state/checkpoints/a@b", "")), Code::kInvalid);
    EXPECT_EQ(error_of(door->write("/state/checkpoints/d/a", "")), Code::kInvalid);
  }
  EXPECT_EQ(agent_->checkpoints()->size(), 3U);
  ASSERT_OK(agent_->files().write_file("/policy/active.json",
                                       R"({"version": 1, "rules": [{"path": "/state/checkpoints", "space": "user", )"
                                       R"("operation": "create", "effect": "deny"}]})"));
  EXPECT_EQ(error_of(vfs_.write("/state/checkpoints/more", "")), Code::kDenied);
  ASSERT_OK(operator_.write("/state/checkpoints/more", ""));
}

// Section 2.2 names typical backends: each memory works on one, under its own rules.
TEST_F(VfsApiTest, S2_2_EachMemoryWorksOnABackend) {
  std::vector<VfsMountOptions> mounts;
  for (const std::string dir : {"/mem/working", "/mem/episodic", "/mem/semantic", "/state/checkpoints", "/ipc/inbox"}) {
    mounts.push_back({.path = dir, .backend = "sqlite:" + dir_.file(std::to_string(mounts.size()) + ".db")});
  }
  auto agent = Agent::open({.path = dir_.file("b.db"), .mounts = mounts}).value();
  ASSERT_OK(agent->vfs().write("/mem/working/f", "lasts on this backend"));
  ASSERT_OK(agent->vfs().append("/mem/episodic/log", "one"));
  EXPECT_EQ(error_of(agent->vfs().files().value().truncate("/mem/episodic/log", 0)), Code::kDenied);
  ASSERT_OK(agent->vfs().write("/mem/semantic/x.json", R"({"text": "x", "embedding": [1]})"));
  ASSERT_OK(agent->vfs().write("/state/checkpoints/large", std::string(3'000'000, 'c')));
  ASSERT_OK(agent->vfs({.space = Space::kKernel}).write("/ipc/inbox/1", "hello"));
  EXPECT_EQ(error_of(agent->vfs().write("/ipc/inbox/2", "forged")), Code::kDenied);
  agent = Agent::open({.path = dir_.file("b.db"), .mounts = mounts}).value();
  EXPECT_EQ(agent->vfs().read("/mem/working/f").value(), "lasts on this backend");
  EXPECT_EQ(agent->vfs().read("/mem/episodic/log").value(), "one");
  EXPECT_EQ(agent->vfs().read("/state/checkpoints/large").value().size(), 3'000'000U);
  EXPECT_EQ(agent->vfs().read("/ipc/inbox/1").value(), "hello");
}

TEST_F(VfsApiTest, S2_2_MessagesAreTakenInTheirOrder) {
  for (const char* name : {"10", "11", "12"}) {
    ASSERT_OK(operator_.write(std::string("/ipc/inbox/") + name, name));
    ASSERT_OK(vfs_.write(std::string("/ipc/outbox/") + name, name));
  }
  for (auto& [taker, dir] : {std::pair(vfs_, "/ipc/inbox"), std::pair(operator_, "/ipc/outbox")}) {
    Vfs vfs = taker;
    std::string taken;
    for (const std::string& name : vfs.list(dir).value()) {
      std::string path = std::string(dir) + "/" + name;
      taken += vfs.read(path).value() + " ";
      ASSERT_OK(vfs.remove(path));
    }
    EXPECT_EQ(taken, "10 11 12 ");
    EXPECT_TRUE(vfs.list(dir).value().empty());
  }
}

// Everything else is the suite of blob stores (own_blobs_test.cc) and that of BlobFs.
class Drawer final : public BlobStore {
 public:
  std::string name() const override { return "drawer"; }
  Result<std::optional<Blob>> get(std::string_view key) override {
    auto found = values.find(key);
    if (found == values.end()) return std::optional<Blob>();
    return std::optional(Blob{.info = {.version = found->second}, .content = found->second});
  }
  Result<BlobInfo> put(std::string_view key, std::string_view content, const PutOptions&) override {
    if (is_away) return Error(Code::kUnavailable, "the drawer is locked");
    values.insert_or_assign(std::string(key), std::string(content));
    return BlobInfo{.version = std::string(content)};
  }
  Result<bool> remove(std::string_view key) override { return values.erase(std::string(key)) > 0; }
  Result<std::vector<BlobInfo>> list(std::string_view prefix, std::string_view from, std::size_t limit) override {
    std::vector<BlobInfo> found;
    for (const auto& [key, value] : values) {
      if (key.starts_with(prefix) && key >= from && found.size() < limit) {
        found.push_back({.key = key, .size = value.size(), .version = value});
      }
    }
    return found;
  }

  std::map<std::string, std::string, std::less<>> values;
  bool is_away = false;
};

TEST_F(VfsApiTest, S4_3_AStoreOfTheProgramIsMounted) {
  auto drawer = std::make_shared<Drawer>();
  auto agent = Agent::open({.path = dir_.file("b.db"), .mounts = {{.path = "/mem/own", .store = drawer}}}).value();
  Vfs vfs = agent->vfs();
  ASSERT_OK(vfs.write("/mem/own/a/b.txt", "one"));
  ASSERT_OK(vfs.append("/mem/own/a/b.txt", " two"));
  EXPECT_EQ(drawer->values.at("a/b.txt"), "one two");
  drawer->values["a/c"] = "of the program";
  EXPECT_EQ(vfs.read("/mem/own/a/c").value(), "of the program");
  EXPECT_EQ(vfs.list("/mem/own/a").value(), (std::vector<std::string>{"b.txt", "c"}));
  EXPECT_EQ(vfs.mounts().value().back().backend, "drawer");
  drawer->is_away = true;
  EXPECT_EQ(error_of(vfs.write("/mem/own/a/c", "lost")), Code::kUnavailable);
  drawer->is_away = false;
  ASSERT_OK(vfs.remove("/mem/own/a/c"));
  EXPECT_FALSE(drawer->values.contains("a/c"));
  EXPECT_EQ(error_of(vfs.write("/mem/own/x", "y", {.time_to_live = std::chrono::hours(1)})), Code::kUnsupported);
}

TEST_F(VfsApiTest, AMountThatCannotBeIsRefused) {
  auto open = [&](VfsMountOptions mount) { return error_of(Agent::open({.path = ":memory:", .mounts = {mount}})); };
  EXPECT_EQ(open({.path = "/mem/x"}), Code::kInvalid);
  EXPECT_EQ(open({.path = "/mem/x", .backend = "memory:", .store = std::make_shared<Drawer>()}), Code::kInvalid);
  EXPECT_EQ(open({.path = "/policy/x", .backend = "memory:"}), Code::kInvalid);
  EXPECT_EQ(open({.path = "/", .store = std::make_shared<Drawer>()}), Code::kInvalid);
  EXPECT_EQ(open({.path = "/mem/x", .backend = "redis://u:secret@host"}), Code::kInvalid);
  auto twice = Agent::open({.path = ":memory:",
                            .mounts = {{.path = "/mem/x", .backend = "memory:"},
                                       {.path = "/mem//x/", .store = std::make_shared<Drawer>()}}})
                   .value();
  EXPECT_EQ(error_of(twice->vfs().list("/")), Code::kInvalid);
  auto unknown = Agent::open({.path = ":memory:", .mounts = {{.path = "/mem/x", .backend = "ftp://host"}}}).value();
  EXPECT_EQ(error_of(unknown->vfs().list("/")), Code::kInvalid);
}

TEST_F(VfsApiTest, S7_2_QueriesFindItemsOfSemanticMemoryAndOfMountedIndexes) {
  auto agent =
      Agent::open({.path = dir_.file("b.db"), .mounts = {{.path = "/mem/books", .backend = "vectors:"}}}).value();
  Vfs vfs = agent->vfs();
  for (const std::string dir : {"/mem/semantic", "/mem/books"}) {
    ASSERT_OK(vfs.write(dir + "/cat.json", R"({"text": "a cat", "embedding": [1, 0.1], "metadata": {"legs": 4}})"));
    ASSERT_OK(vfs.write(dir + "/b/bird.json", R"({"text": "a bird", "embedding": [0.2, 1], "metadata": {"legs": 2}})"));
    std::vector<VfsMatch> found = vfs.query(dir, {.embedding = {1, 0}, .top_k = 1}).value();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].path, dir + "/cat.json");
    EXPECT_EQ(found[0].text, "a cat");
    EXPECT_EQ(found[0].metadata, R"({"legs":4})");
    EXPECT_NEAR(found[0].score, 0.995, 0.001);
    EXPECT_EQ(vfs.query(dir, {.embedding = {1, 0}, .filter = R"({"legs": {"$lt": 4}})"}).value()[0].text, "a bird");
    EXPECT_EQ(vfs.query(dir + "/b", {.embedding = {1, 0}}).value().size(), 1U);
    EXPECT_EQ(error_of(vfs.query(dir, {.embedding = {1, 0, 0}})), Code::kInvalid);
    EXPECT_EQ(error_of(vfs.query(dir, {.embedding = {1, 0}, .filter = "{"})), Code::kInvalid);
    ASSERT_OK(vfs.remove(dir + "/cat.json"));
    EXPECT_EQ(vfs.query(dir, {.embedding = {1, 0}, .top_k = 1}).value()[0].text, "a bird");
  }
  EXPECT_EQ(error_of(vfs.query("/state", {.embedding = {1, 0}})), Code::kInvalid);
  EXPECT_EQ(error_of(vfs.query("/mem/booksX", {.embedding = {1, 0}})), Code::kInvalid);
}

TEST_F(VfsApiTest, S7_2_OnlyItemsThatQueriesFindAreWrittenToSemanticMemory) {
  ASSERT_OK(vfs_.write("/mem/semantic/a.json", R"({"text": "a", "embedding": [1, 0]})"));
  for (const char* wrong :
       {"5", R"({"text": "no embedding"})", R"({"embedding": "x"})", R"({"embedding": [1, 0, 0]})"}) {
    EXPECT_EQ(error_of(vfs_.write("/mem/semantic/b.json", wrong)), Code::kInvalid) << wrong;
    EXPECT_FALSE(vfs_.exists("/mem/semantic/b.json").value()) << wrong;
  }
  ASSERT_OK(vfs_.write("/mem/semantic/b.json", "5", {.as_is = true}));
  ASSERT_OK(vfs_.write("/mem/semantic/notes", "5"));
  EXPECT_EQ(vfs_.query("/mem/semantic", {.embedding = {1, 0}}).value().size(), 1U);
}

TEST_F(VfsApiTest, AReadOnlyAgentShowsItsNamespace) {
  ASSERT_OK(vfs_.write("/state/f", "x"));
  agent_.reset();
  agent_ = Agent::open({.path = dir_.file("a.db"), .mode = Mode::kReadOnly}).value();
  EXPECT_EQ(agent_->vfs().read("/state/f").value(), "x");
  EXPECT_EQ(error_of(agent_->vfs().write("/state/f", "y")), Code::kReadOnly);
}

}  // namespace
}  // namespace warren
