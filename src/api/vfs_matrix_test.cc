// Every class of path x operation x space through the library; tests/mount/matrix.py is the same table through the
// command and a mount. Tests are named after the sections of RFC-002.
#include <warren/agent.h>

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

struct Row {
  const char* dir;
  const char* user;  // r(ead) l(ist) o(verwrite) a(ppend) c(reate) d(elete)
  const char* kernel;
};
constexpr const char* kEverything = "rloacd";
const Row kTable[] = {
    {"/mem/working", kEverything, kEverything},
    {"/mem/episodic", "rlac", "rlac"},
    {"/mem/semantic", kEverything, kEverything},
    {"/state", kEverything, kEverything},
    {"/policy", "rl", kEverything},
    {"/ipc/inbox", "rld", "oac"},
    {"/ipc/outbox", "oac", "rld"},
    {"/ipc", "rl", "rl"},
    {"/audit", "rl", "rlac"},
    {"/notes", kEverything, kEverything},
    {"/mem/workingX", kEverything, kEverything},
    {"/mem/episodicX", kEverything, kEverything},
    {"/policyX", kEverything, kEverything},
};

class VfsMatrix : public ::testing::Test {
 protected:
  // A file to work on, by the door that has no rules; working memory has none of these.
  std::string plant(const std::string& dir, const std::string& name) {
    std::string path = dir + "/" + name;
    Status made = dir == "/mem/working" ? agent_->vfs().write(path, "old") : agent_->files().write_file(path, "old");
    EXPECT_OK(made);
    return path;
  }
  bool may(const Status& status) {
    if (status.ok()) return true;
    EXPECT_EQ(status.error().code(), Code::kDenied) << status.error().message();
    return false;
  }
  template <class T>
  bool may(const Result<T>& result) {
    if (result.ok()) return true;
    EXPECT_EQ(result.error().code(), Code::kDenied) << result.error().message();
    return false;
  }

  std::string rights_in(const std::string& dir, Space space) {
    Vfs vfs = agent_->vfs({.space = space});
    Files files = vfs.files().value();
    plant(dir, "f");
    std::string rights;
    if (may(vfs.read(dir + "/f"))) rights += 'r';
    if (may(vfs.list(dir))) rights += 'l';
    if (may(overwrite(files, dir + "/f"))) rights += 'o';
    if (may(vfs.append(dir + "/f", "+"))) rights += 'a';
    if (may(vfs.write(dir + "/new", "x"))) rights += 'c';
    if (may(vfs.remove(plant(dir, "gone")))) rights += 'd';
    if (dir != "/mem/working") agent_->files().remove(dir + "/new", {.force = Force::kYes}).ignore("made or not");
    else agent_->vfs().remove(dir + "/new", {.force = Force::kYes}).ignore("made or not");
    return rights;
  }
  static Status overwrite(Files& files, const std::string& path) {
    auto file = WARREN_TRY(files.open(path, {.access = FileAccess::kWrite}));
    return file->write_at(0, "n");
  }

  testing::TempDir dir_;
  std::unique_ptr<Agent> agent_ = Agent::open({.path = dir_.file("a.db")}).value();
};

TEST_F(VfsMatrix, S3_3_PermissionsOfTheLibrary) {
  ASSERT_OK(agent_->vfs().list("/"));
  for (const Row& row : kTable) {
    EXPECT_EQ(rights_in(row.dir, Space::kUser), row.user) << row.dir << " in user space";
    EXPECT_EQ(rights_in(row.dir, Space::kKernel), row.kernel) << row.dir << " in kernel space";
  }
}

TEST_F(VfsMatrix, S2_2_NothingRewritesEpisodicMemory) {
  for (Space space : {Space::kUser, Space::kKernel}) {
    Vfs vfs = agent_->vfs({.space = space});
    Files files = vfs.files().value();
    ASSERT_OK(agent_->files().write_file("/mem/episodic/log", "one"));
    ASSERT_OK(agent_->files().write_file("/mem/semantic/f", "x"));
    const std::string log = "/mem/episodic/log";
    EXPECT_EQ(error_of(files.write_file(log, "x")), Code::kDenied);
    EXPECT_EQ(error_of(files.truncate(log, 0)), Code::kDenied);
    EXPECT_EQ(error_of(files.truncate(log, 100)), Code::kDenied);
    EXPECT_EQ(error_of(files.unlink(log)), Code::kDenied);
    EXPECT_EQ(error_of(files.rename("/mem/semantic/f", log)), Code::kDenied);
    EXPECT_EQ(error_of(files.rename("/mem/semantic/f", log, RenameMode::kExchange)), Code::kDenied);
    EXPECT_EQ(error_of(files.rename(log, "/mem/episodic/log2")), Code::kDenied);
    EXPECT_EQ(error_of(files.link(log, "/mem/semantic/log")), Code::kCrossDevice);
    EXPECT_EQ(error_of(files.copy_file("/mem/semantic/f", log)), Code::kDenied);
    EXPECT_EQ(error_of(files.set_mode(log, 0600)), Code::kDenied);
    EXPECT_EQ(error_of(files.set_times(log, {}, {})), Code::kDenied);
    EXPECT_EQ(error_of(files.set_xattr(log, "user.a", "x")), Code::kDenied);
    EXPECT_EQ(error_of(files.set_xattr(log, "user.warren.expires", "1")), Code::kDenied);
    EXPECT_EQ(error_of(vfs.remove("/mem/episodic", {.recursive = Recursive::kYes})), Code::kDenied);
    EXPECT_EQ(vfs.read(log).value(), "one");
    ASSERT_OK(vfs.append(log, " two"));
    EXPECT_EQ(vfs.read(log).value(), "one two");
  }
}

TEST_F(VfsMatrix, S2_3_PathsThatTryToBeOthers) {
  Vfs vfs = agent_->vfs();
  for (const char* path : {"/policy/x", "//policy//x", "/./policy/x", "/mem/../policy/x", "/../../policy/x",
                           "/agent/a/policy/x", "policy/x", "/mem/working/no/../../../policy/x"}) {
    EXPECT_EQ(error_of(vfs.write(path, "x")), Code::kDenied) << path;
  }
  for (const char* path : {"/agent/b/x", "/agent/A/x", "/agent/aX/x", "/agent/a/../b/x", "/agent"}) {
    EXPECT_EQ(error_of(vfs.read(path)), Code::kDenied) << path;
  }
  EXPECT_EQ(error_of(vfs.write(std::string_view("/mem/working/a\0/../../policy/x", 30), "x")), Code::kInvalid);
  EXPECT_EQ(error_of(vfs.write("/mem/working/" + std::string(256, 'n'), "x")), Code::kNameTooLong);
  EXPECT_FALSE(vfs.write("/" + std::string(100'000, 'd'), "x").ok());
  EXPECT_FALSE(vfs.write("", "x").ok());
  for (const char* name : {"%2e%2e", "..%2f", "\xef\xbc\x8e\xef\xbc\x8e", "policy\xef\xbc\x8f", "...", "\xff\xfe"}) {
    std::string path = std::string("/mem/working/") + name;
    ASSERT_OK(vfs.write(path, name));
    EXPECT_EQ(vfs.read(path).value(), name);
  }
  EXPECT_TRUE(vfs.list("/policy").value().empty());
}

TEST_F(VfsMatrix, S2_3_SymbolicLinksDoNotLeadAroundTheRules) {
  Vfs vfs = agent_->vfs();
  Files files = vfs.files().value();
  ASSERT_OK(vfs.list("/"));
  ASSERT_OK(agent_->files().write_file("/policy/p", "kept"));
  for (const char* place : {"/state", "/mem/working"}) {
    std::string link = std::string(place) + "/link";
    ASSERT_OK(files.make_symlink("/policy", link));
    EXPECT_EQ(error_of(vfs.write(link + "/p", "x")), Code::kDenied);
    EXPECT_EQ(error_of(vfs.write(link + "/new", "x")), Code::kDenied);
    EXPECT_EQ(error_of(vfs.remove(link + "/p")), Code::kDenied);
    EXPECT_EQ(vfs.read(link + "/p").value(), "kept");
  }
}

TEST_F(VfsMatrix, ConcurrentWritersLoseNothing) {
  constexpr int kWriters = 4;
  constexpr int kLines = 25;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      Vfs vfs = agent_->vfs({.space = writer % 2 == 0 ? Space::kUser : Space::kKernel});
      for (int i = 0; i < kLines; ++i) EXPECT_OK(vfs.append("/mem/episodic/log.jsonl", std::to_string(i)));
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::string log = agent_->vfs().read("/mem/episodic/log.jsonl").value();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), kWriters * kLines);
}

}  // namespace
}  // namespace warren
