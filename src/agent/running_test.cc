#include "agent/running.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

// The list is kept in the user's runtime directory, so each test has its own.
class RunningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* given = std::getenv("XDG_RUNTIME_DIR")) before_ = given;
    ::setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), 1);
  }
  void TearDown() override {
    if (before_) ::setenv("XDG_RUNTIME_DIR", before_->c_str(), 1);
    else ::unsetenv("XDG_RUNTIME_DIR");
  }

  static Running mount_on(std::string dir, std::int64_t started_at = 100) {
    return {.kind = "mount",
            .agent = "/agents/a.db",
            .dir = std::move(dir),
            .command = "warren mount a",
            .started_at = started_at,
            .process = {}};
  }

  // Simulates a process that added its entry and was killed.
  static void add_and_die() {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Result<std::unique_ptr<RunningEntry>> entry = RunningEntry::add(mount_on("/dead"));
      ::_exit(entry.ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  std::string folder() const { return directory_.file(fmt::format("warren-{}", ::geteuid())); }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder()), std::filesystem::directory_iterator());
  }

  testing::TempDir directory_;
  std::optional<std::string> before_;
};

TEST_F(RunningTest, AnEntryIsListedForAsLongAsItLives) {
  std::unique_ptr<RunningEntry> entry = RunningEntry::add(mount_on("/mnt")).value();
  std::vector<Running> all = list_running().value();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, "mount");
  EXPECT_EQ(all[0].agent, "/agents/a.db");
  EXPECT_EQ(all[0].dir, "/mnt");
  EXPECT_EQ(all[0].command, "warren mount a");
  EXPECT_EQ(all[0].started_at, 100);
  EXPECT_EQ(all[0].process, current_process());
  entry.reset();
  EXPECT_TRUE(list_running().value().empty());
  EXPECT_EQ(files(), 0);
}

TEST_F(RunningTest, ACommandOfMegabytesIsListedShortened) {
  Running running = mount_on("/mnt");
  running.command = std::string(std::size_t{2} << 20, 'x');
  std::unique_ptr<RunningEntry> entry = RunningEntry::add(running).value();
  std::vector<Running> all = list_running().value();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_LT(all[0].command.size(), 5000U);
}

TEST_F(RunningTest, NothingRunsAtFirst) { EXPECT_TRUE(list_running().value().empty()); }

TEST_F(RunningTest, ListingRemovesTheEntryOfADeadProcess) {
  add_and_die();
  ASSERT_EQ(files(), 1);
  EXPECT_TRUE(list_running().value().empty());
  EXPECT_EQ(files(), 0);
}

TEST_F(RunningTest, AnInvalidEntryIsRemovedAndOtherFilesAreLeft) {
  ASSERT_OK(list_running());  // creates the folder
  std::ofstream(folder() + "/1.json") << "{ torn";
  std::ofstream(folder() + "/2.json") << "[]";
  std::ofstream(folder() + "/notes") << "mine";
  EXPECT_TRUE(list_running().value().empty());
  EXPECT_EQ(files(), 1);
  EXPECT_TRUE(std::filesystem::exists(folder() + "/notes"));
}

TEST_F(RunningTest, OthersCannotReadIt) {
  std::unique_ptr<RunningEntry> entry = RunningEntry::add(mount_on("/mnt")).value();
  namespace files = std::filesystem;
  EXPECT_EQ(files::status(folder()).permissions(), files::perms::owner_all);
}

TEST_F(RunningTest, AFolderThatAnotherUserCouldHaveMadeIsRefused) {
  std::filesystem::create_directory(directory_.file("elsewhere"));
  std::filesystem::create_directory_symlink(directory_.file("elsewhere"), folder());
  Result<std::vector<Running>> refused = list_running();
  ASSERT_EQ(error_of(refused), Code::kDenied);
  EXPECT_FALSE(refused.error().hint().empty());
  EXPECT_EQ(error_of(RunningEntry::add(mount_on("/mnt"))), Code::kDenied);
}

}  // namespace
}  // namespace warren
