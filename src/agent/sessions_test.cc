#include "agent/sessions.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "agent/base_note.h"
#include "agent/locate.h"
#include "agent/namespace_parts.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

// Sessions are in the home directory, so each test has its own.
class SessionsTest : public ::testing::Test {
 protected:
  SessionsTest() {
    const char* home = std::getenv("HOME");
    before_ = home == nullptr ? "" : home;
    ::setenv("HOME", dir_.path().c_str(), 1);
  }
  ~SessionsTest() override { ::setenv("HOME", before_.c_str(), 1); }

  SessionDir make(const std::string& id) {
    SessionDir session = SessionDir::open(id).value();
    std::ofstream(session.file()) << "x";
    EXPECT_TRUE(session.set_base("/base").ok());
    return session;
  }

  testing::TempDir dir_;
  std::string before_;
};

TEST_F(SessionsTest, ANewOneHasAFolderAndNoFile) {
  SessionDir session = SessionDir::open("s").value();
  EXPECT_TRUE(*session.is_new());
  EXPECT_EQ(session.path(), dir_.path() + "/.agentfs/run/s");
  EXPECT_EQ(std::filesystem::status(session.path()).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(list_sessions()->empty());
}

TEST_F(SessionsTest, TheHomesPathNeverHasTwoSlashesInARow) {
  ::setenv("HOME", "/", 1);
  EXPECT_EQ(*agents_home(), "/.agentfs");
  ::unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(*config_file("mounts/a.toml"), "/.config/warren/mounts/a.toml");
  ::setenv("XDG_CONFIG_HOME", "/c/", 1);
  EXPECT_EQ(*config_file("run.toml"), "/c/warren/run.toml");
  ::unsetenv("XDG_CONFIG_HOME");
  ::setenv("HOME", "/x//", 1);
  EXPECT_EQ(*home_directory(), "/x");
  EXPECT_EQ(*agents_home(), "/x/.agentfs");
}

TEST_F(SessionsTest, AnIdThatLeadsElsewhereIsRefused) {
  for (const char* id : {"..", "a/b", "", ".", "a b"}) EXPECT_EQ(error_of(SessionDir::open(id)), Code::kInvalid) << id;
}

TEST_F(SessionsTest, TheyAreListedById) {
  make("b");
  make("a");
  std::filesystem::create_directories(dir_.path() + "/.agentfs/run/no file");
  std::vector<SessionInfo> all = *list_sessions();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].id, "a");
  EXPECT_EQ(all[0].base, "/base");
  EXPECT_EQ(all[0].size_bytes, 1U);
  EXPECT_FALSE(all[0].is_running);
}

TEST_F(SessionsTest, TheyAreFoundByIdLikeAgents) {
  make("s");
  EXPECT_EQ(*locate_agent("s"), dir_.path() + "/.agentfs/run/s/delta.db");
  EXPECT_EQ(error_of(locate_agent("t")), Code::kNotFound);
}

TEST_F(SessionsTest, OneThatIsServedIsRunningUntilTheLockIsReleased) {
  SessionDir session = make("s");
  EXPECT_FALSE(*session.is_running());
  {
    Fd serving = session.lock_serving().value();
    EXPECT_TRUE(*session.is_running());
    EXPECT_EQ(error_of(session.remove()), Code::kBusy);
    EXPECT_EQ(error_of(rename_session("s", "t")), Code::kBusy);
    EXPECT_TRUE(session.lock().ok()) << "starting and serving are two locks";
  }
  EXPECT_FALSE(*session.is_running());
}

TEST_F(SessionsTest, EndedProcessesAreRemovedFromTheList) {
  SessionDir session = make("s");
  ASSERT_TRUE(
      session
          .add_process({.pid = ::getpid(), .is_owner = true, .command = "me", .started_at = 1'700'000'000, .cwd = "/"})
          .ok());
  ASSERT_TRUE(session.add_process({.pid = 999'999'999, .command = "gone"}).ok());
  std::ofstream(session.path() + "/procs/1.json") << "{";
  std::vector<SessionProcess> processes = list_sessions()->front().processes;
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].command, "me");
  EXPECT_EQ(processes[0].started_at, 1'700'000'000);
  EXPECT_TRUE(processes[0].is_owner);
  session.remove_process(::getpid());
  EXPECT_FALSE(std::filesystem::exists(session.path() + "/procs"));
}

TEST_F(SessionsTest, RenamingNeverReplaces) {
  make("a");
  make("b");
  EXPECT_EQ(error_of(rename_session("a", "b")), Code::kExists);
  EXPECT_EQ(error_of(rename_session("none", "c")), Code::kNotFound);
  EXPECT_EQ(error_of(rename_session("a", "../c")), Code::kInvalid);
  ASSERT_TRUE(rename_session("a", "c").ok());
  EXPECT_EQ(list_sessions()->back().id, "c");
}

TEST_F(SessionsTest, WaitingForARenamedOneFails) {
  SessionDir session = make("a");
  ASSERT_TRUE(rename_session("a", "b").ok());
  EXPECT_EQ(error_of(session.lock()), Code::kStale);
}

TEST_F(SessionsTest, OneThatIsOpenSomewhereIsNotDeleted) {
  testing::FakeClock clock;
  SessionDir session = SessionDir::open("a").value();
  auto mounted = Store::open(session.file(), {.mode = OpenMode::kCreate}, clock).take_value();
  EXPECT_EQ(error_of(delete_session("a")), Code::kBusy);
  EXPECT_TRUE(std::filesystem::exists(session.file()));
  mounted.reset();
  ASSERT_OK(delete_session("a"));
  EXPECT_FALSE(std::filesystem::exists(session.path()));
}

TEST_F(SessionsTest, OneThatIsToBeKeptIsDeletedOnlyIfTheMarkDoesNotMatter) {
  SessionDir session = make("a");
  ASSERT_OK(session.keep());
  EXPECT_FALSE(*delete_session_unless_kept("a"));
  EXPECT_TRUE(std::filesystem::exists(session.file()));
  ASSERT_OK(delete_session("a"));
  EXPECT_FALSE(std::filesystem::exists(session.path()));
  SessionDir other = make("b");
  EXPECT_TRUE(*delete_session_unless_kept("b"));
  EXPECT_FALSE(std::filesystem::exists(other.path()));
}

TEST_F(SessionsTest, WhatTheUserAgreedToStaysIfDeletingFails) {
  testing::FakeClock clock;
  SessionDir session = make("a");
  ASSERT_OK(put_base_note(session.file(), dir_.path(), NoteFor::kOldAgent));
  std::string file = *working_file(session.file());
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  auto working = Store::open(file, {.mode = OpenMode::kCreate}, clock).take_value();
  EXPECT_EQ(error_of(delete_session("a")), Code::kBusy);
  EXPECT_TRUE(find_base_note(session.file())->has_value());
  working.reset();
  ASSERT_OK(delete_session("a"));
}

TEST_F(SessionsTest, DeletingLeavesForeignFiles) {
  SessionDir session = make("a");
  std::ofstream(session.path() + "/notes") << "mine";
  EXPECT_FALSE(delete_session("a").ok());
  EXPECT_TRUE(std::filesystem::exists(session.path() + "/notes"));
  std::filesystem::remove(session.path() + "/notes");
  EXPECT_TRUE(delete_session("a").ok());
  EXPECT_FALSE(std::filesystem::exists(session.path()));
}

}  // namespace
}  // namespace warren
