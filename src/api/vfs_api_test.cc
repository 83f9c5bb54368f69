// agent->vfs() as users see it: sections of RFC-002 are named in the tests.
#include <warren/agent.h>

#include <chrono>
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
  EXPECT_EQ(vfs_.mounts().value().size(), 2U);
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

TEST_F(VfsApiTest, WorkingMemoryEndsWithTheAgentObject) {
  ASSERT_OK(vfs_.write("/mem/working/f", "x"));
  ASSERT_OK(vfs_.write("/mem/semantic/f", "x"));
  auto again = Agent::open({.path = dir_.file("a.db")}).value();
  EXPECT_FALSE(again->vfs().exists("/mem/working/f").value());
  EXPECT_TRUE(again->vfs().exists("/mem/semantic/f").value());
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

TEST_F(VfsApiTest, AReadOnlyAgentShowsItsNamespace) {
  ASSERT_OK(vfs_.write("/state/f", "x"));
  agent_.reset();
  agent_ = Agent::open({.path = dir_.file("a.db"), .mode = Mode::kReadOnly}).value();
  EXPECT_EQ(agent_->vfs().read("/state/f").value(), "x");
  EXPECT_EQ(error_of(agent_->vfs().write("/state/f", "y")), Code::kReadOnly);
}

}  // namespace
}  // namespace warren
