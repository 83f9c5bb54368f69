#include "agent/record/audit_trail.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/agent_namespace.h"
#include "agent/keys/audit_key.h"
#include "agent/record/anchorer.h"
#include "agent/record/audit_note.h"
#include "base/clock.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "store/overlay/overlay_schema.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

class AuditTrailTest : public ::testing::Test {
 protected:
  AuditTrailTest() {
    ::setenv("HOME", dir_.path().c_str(), 1);
    ::unsetenv("XDG_CONFIG_HOME");
    ::setenv("WARREN_AUDIT_KEY", std::string(64, 'a').c_str(), 1);
    EXPECT_OK(make_host_dirs(base_, 0755));
  }
  ~AuditTrailTest() override { ::unsetenv("WARREN_AUDIT_KEY"); }

  void make_agent(bool has_base) {
    auto store = Store::open(path_, {.mode = OpenMode::kCreate}, clock_).take_value();
    if (!has_base) return;
    ASSERT_OK(make_overlay(*store, base_));
  }
  std::unique_ptr<Agent> open(std::string door, OpenMode mode = OpenMode::kReadWrite,
                              Commits commits = Commits::kGrouped) {
    AgentOptions options{.id_or_path = path_, .mode = mode, .durability = Durability::kProcess, .commits = commits};
    options.caller.door = std::move(door);
    return Agent::open(options, clock_).take_value();
  }
  std::vector<std::string> events() {
    auto agent =
        Agent::open({.id_or_path = path_, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn}, clock_).take_value();
    std::vector<std::string> all;
    EXPECT_OK(read_trail(*agent, {}, std::nullopt, [&](const AuditRow& row) -> Status {
      all.push_back(row.event.op + " " + row.event.path + (row.event.ok ? "" : " " + row.event.err));
      return Ok{};
    }));
    return all;
  }
  std::string verify(const VerifyOptions& options = {}) {
    auto agent =
        Agent::open({.id_or_path = path_, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn}, clock_).take_value();
    Result<TrailVerdict> verdict = verify_audit(*agent, options, clock_);
    if (!verdict.ok()) return verdict.error().message();
    return verdict->verdict.fault ? verdict->verdict.fault->why : "";
  }

  testing::TempDir dir_;
  SystemClock clock_;
  std::string path_ = dir_.file("a.db");
  std::string base_ = dir_.file("base");
};

TEST_F(AuditTrailTest, OverABaseAFailedChangeIsOneFailedEvent) {
  for (Commits commits : {Commits::kGrouped, Commits::kEach}) {
    make_agent(true);
    ASSERT_OK(make_host_dirs(base_ + "/full", 0755));
    ASSERT_OK(replace_host_file(base_ + "/full/f", std::string(200'000, 'x'), 0644));
    {
      auto agent = open("run", OpenMode::kReadWrite, commits);
      FileSystem& fs = agent->fs();
      Inode full = fs.lookup(kRootInode, "full").take_value().inode;
      EXPECT_EQ(error_of(fs.remove_dir(kRootInode, "full")), Code::kNotEmpty);
      EXPECT_EQ(error_of(fs.make_dir(kRootInode, "full", {.mode = S_IFDIR | 0755})), Code::kExists);
      Inode file = fs.lookup(full, "f").take_value().inode;
      // It is copied up, and then there is no room for more.
      ASSERT_OK(agent->limit_space(250'000));
      EXPECT_EQ(error_of(fs.write(file, 200'000, as_bytes(std::string(100'000, 'y')))), Code::kNoSpace);
      ASSERT_OK(fs.write(file, 0, as_bytes("z")));
      ASSERT_OK(agent->close());
    }
    EXPECT_THAT(events(),
                ElementsAre("delete /full not_empty", "mkdir /full exists", "write /full/f no_space", "write /full/f"));
    EXPECT_EQ(verify(), "");
    ASSERT_OK(remove_host_file(path_));
    std::filesystem::remove_all(dir_.file(".agentfs"));
  }
}

TEST_F(AuditTrailTest, AnEmptiedOrOlderCopyThatIsMovedIntoPlaceIsFoundByTheNoteAboutItsPath) {
  make_agent(false);
  { ASSERT_OK(switch_audit(*open(""), AuditLevel::kOn, "test", clock_)); }
  std::string older = dir_.file("older.db");
  std::filesystem::copy_file(path_, older);
  { ASSERT_OK(write_file(open("fs")->fs(), "/f", as_bytes("x"))); }
  std::string newest = dir_.file("newest.db");
  std::filesystem::copy_file(path_, newest);
  EXPECT_EQ(verify(), "");
  std::filesystem::rename(older, path_);
  EXPECT_THAT(verify(), HasSubstr("it is missing, although Warren's own note about this path recorded it"));
  {
    auto database = Database::open(newest, {.mode = OpenMode::kReadWrite}).take_value();
    ASSERT_OK(database->execute("DELETE FROM wr_audit; DELETE FROM wr_meta WHERE key = 'audit'"));
  }
  std::filesystem::rename(newest, path_);
  EXPECT_THAT(verify(), HasSubstr("it is missing, with all rows up to row 2"));
  // Whatever is recorded from now on does not hide that.
  for (int i = 0; i < 3; ++i) ASSERT_OK(switch_audit(*open(""), AuditLevel::kOn, "test", clock_));
  EXPECT_THAT(verify(), HasSubstr("it is not the row that Warren's own note about this path has seen"));
}

TEST_F(AuditTrailTest, AnAnchorThatSaysNothingAboutTheAgentIsAnError) {
  make_agent(false);
  auto agent = open("");
  ASSERT_OK(switch_audit(*agent, AuditLevel::kOn, "test", clock_));
  std::string anchors = dir_.file("anchors.jsonl");
  ASSERT_OK(replace_host_file(anchors, R"({"agent":"b","seq":1,"hash":")" + std::string(64, '0') + "\"}\n", 0600));
  EXPECT_THAT(verify({.anchors = {anchors}}), HasSubstr("says nothing about agent 'a'"));
  // Half a line that an interrupted call has left is no reason to lose the next one.
  ASSERT_OK(replace_host_file(anchors, R"({"agent":"a","se)", 0600));
  EXPECT_TRUE(put_anchor(*agent, anchors, clock_).take_value());
  EXPECT_EQ(verify({.anchors = {anchors}}), "");
  EXPECT_EQ(error_of(check_anchor(*agent, "agent:" + path_, clock_)), Code::kInvalid);
  EXPECT_FALSE(check_anchor(*agent, dir_.file("none/x"), clock_).ok());
  EXPECT_FALSE(check_anchor(*agent, "nosuch:x", clock_).ok());
}

TEST_F(AuditTrailTest, AHostingProcessAnchorsTheTrailAtTheStartAtIntervalsAndAtTheEnd) {
  make_agent(false);
  auto agent = open("");
  ASSERT_OK(switch_audit(*agent, AuditLevel::kOn, "test", clock_));
  std::string anchors = dir_.file("anchors.jsonl");
  EXPECT_EQ(error_of(checked_anchor({.address = anchors, .every = std::chrono::milliseconds(10)})), Code::kInvalid);
  AnchorOptions options = checked_anchor({.address = anchors, .every = std::chrono::milliseconds(1000)}).take_value();
  auto anchorer = Anchorer::start(*agent, options, clock_).take_value();
  auto lines = [&] {
    std::string text = read_host_file(anchors, 100'000).take_value();
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(), 1);
  ASSERT_OK(switch_audit(*agent, AuditLevel::kReads, "test", clock_));
  for (int i = 0; i < 600 && lines() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(lines(), 2);
  ASSERT_OK(switch_audit(*agent, AuditLevel::kOn, "test", clock_));
  ASSERT_OK(anchorer->stop());
  EXPECT_EQ(lines(), 3);
  EXPECT_EQ(verify({.anchors = {anchors}}), "");
}

TEST_F(AuditTrailTest, AHostingProcessNotesTheEndOfTheTrailWhileItRuns) {
  make_agent(false);
  auto agent = open("");
  EXPECT_EQ(Anchorer::start(*agent, std::nullopt, clock_).take_value(), nullptr);  // nothing is recorded
  ASSERT_OK(switch_audit(*agent, AuditLevel::kOn, "test", clock_));
  EXPECT_TRUE(find_audit_notes(path_).take_value().empty());
  auto anchorer = Anchorer::start(*agent, std::nullopt, clock_, std::chrono::milliseconds(10)).take_value();
  auto is_noted = [&] { return !find_audit_notes(path_).take_value().empty(); };
  for (int i = 0; i < 600 && !is_noted(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(is_noted());
  ASSERT_OK(anchorer->stop());
}

TEST_F(AuditTrailTest, ATrailThatGoesOnAsAnotherAgentsSaysSo) {
  make_agent(false);
  { ASSERT_OK(switch_audit(*open(""), AuditLevel::kOn, "test", clock_)); }
  std::string other = dir_.file("b.db");
  std::filesystem::copy_file(path_, other);
  auto agent = Agent::open({.id_or_path = other}, clock_).take_value();
  TrailVerdict verdict = verify_audit(*agent, {}, clock_).take_value();
  ASSERT_EQ(verdict.verdict.successions.size(), 1U);
  EXPECT_EQ(verdict.verdict.successions[0].seq, 2);
  ASSERT_OK(switch_audit(*agent, AuditLevel::kReads, "test", clock_));
  verdict = verify_audit(*agent, {}, clock_).take_value();
  EXPECT_FALSE(verdict.verdict.fault);
  ASSERT_EQ(verdict.verdict.successions.size(), 1U);
  EXPECT_EQ(verdict.verdict.successions[0].before, "a");
  EXPECT_EQ(verdict.verdict.successions[0].after, "b");
}

TEST_F(AuditTrailTest, WhoseReadsAreRecordedIsNotOpenedReadOnlyUnrecorded) {
  make_agent(false);
  { ASSERT_OK(write_file(open("")->fs(), "/f", as_bytes("x"))); }
  { ASSERT_OK(switch_audit(*open(""), AuditLevel::kReads, "test", clock_)); }
  AgentOptions options{.id_or_path = path_, .mode = OpenMode::kReadOnly};
  options.caller.door = "library";
  EXPECT_EQ(error_of(Agent::open(options, clock_)), Code::kReadOnly);
  options.may_record = true;
  {
    auto agent = Agent::open(options, clock_).take_value();
    EXPECT_EQ(read_file(agent->fs(), "/f").take_value(), "x");
    ASSERT_OK(agent->check_recorded());
  }
  EXPECT_THAT(events(), ElementsAre("audit reads", "read /f"));
  options.caller.door = "";
  {
    auto agent = Agent::open(options, clock_).take_value();
    EXPECT_EQ(error_of(AgentNamespace::open(*agent, {}, clock_)), Code::kReadOnly);
  }
  // A key that cannot be used is not a reason to read without a record.
  options.caller.door = "fs";
  ::setenv("WARREN_AUDIT_KEY", "short", 1);
  EXPECT_EQ(error_of(Agent::open(options, clock_)), Code::kInvalid);
}

TEST_F(AuditTrailTest, AKeyIsNotMadeForATrailThatHasRowsOfAnother) {
  make_agent(false);
  { ASSERT_OK(switch_audit(*open(""), AuditLevel::kOn, "test", clock_)); }
  ::unsetenv("WARREN_AUDIT_KEY");
  AgentOptions options{.id_or_path = path_};
  options.caller.door = "fs";
  EXPECT_EQ(error_of(Agent::open(options, clock_)), Code::kNotFound);
}

}  // namespace
}  // namespace warren
