#include "relay/spawn/child.h"

#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

class ChildTest : public ::testing::Test {
 protected:
  Result<Child> start(std::string script) {
    ChildSpec spec;
    spec.program = "/bin/sh";
    spec.argv = {"sh", "-c", std::move(script), "sh", dir.path()};
    spec.env = {"PATH=/usr/bin:/bin"};
    spec.dir = open_host_dir(dir.path()).take_value();
    spec.log = Fd(::open((dir.path() + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    return Child::start(spec);
  }
  bool exists(const std::string& name) { return ::access(fmt::format("{}/{}", dir.path(), name).c_str(), F_OK) == 0; }
  ChildEnd wait_for(Child& child) {
    pollfd ended{child.pidfd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 120'000), 1);
    return child.take_end().value_or(ChildEnd{});
  }
  bool has_process(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0; }

  testing::TempDir dir;
};

TEST_F(ChildTest, RunsOnlyOnceTheGateIsOpenAndReportsHowItEnded) {
  auto child = start("touch ran; exit 3");
  ASSERT_OK(child);
  pollfd ended{child->pidfd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 50), 0);
  EXPECT_FALSE(exists("ran"));
  EXPECT_FALSE(child->take_end());
  child->open_gate();
  EXPECT_EQ(wait_for(*child).code, 3);
  EXPECT_TRUE(exists("ran"));
  EXPECT_FALSE(has_process(child->process().pid));
}

TEST_F(ChildTest, AChildAtItsGateEndsWithItsObject) {
  std::int64_t pid = 0;
  {
    auto child = start("touch ran");
    ASSERT_OK(child);
    pid = child->process().pid;
    EXPECT_TRUE(has_process(pid));
  }
  EXPECT_FALSE(has_process(pid));
  EXPECT_FALSE(exists("ran"));
}

// When a relay dies, the other end of the pipe closes.
TEST_F(ChildTest, WithoutARelayItExitsWithoutRunning) {
  int report[2];
  ASSERT_EQ(::pipe(report), 0);
  pid_t relay = ::fork();
  if (relay == 0) {
    auto child = start("touch ran");
    std::int64_t pid = child.ok() ? child->process().pid : 0;
    ssize_t written = ::write(report[1], &pid, sizeof pid);
    ::_exit(written == sizeof pid ? 0 : 1);  // no destructor
  }
  std::int64_t pid = 0;
  ASSERT_EQ(::read(report[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  int status = 0;
  ASSERT_EQ(::waitpid(relay, &status, 0), relay);
  ASSERT_GT(pid, 0);
  for (int tries = 0; tries < 12'000 && find_process(pid); ++tries) ::poll(nullptr, 0, 10);
  EXPECT_FALSE(find_process(pid));
  EXPECT_FALSE(exists("ran"));
}

TEST_F(ChildTest, SignalsReachTheWholeGroupAndTheRestEndsWithTheLeader) {
  auto child = start("sleep 1000 & echo $! > inner.new; mv inner.new inner; wait");
  ASSERT_OK(child);
  child->open_gate();
  for (int tries = 0; tries < 12'000 && !exists("inner"); ++tries) ::poll(nullptr, 0, 10);
  std::int64_t inner = std::stoll(read_host_file(dir.path() + "/inner", 100).take_value());
  ASSERT_TRUE(find_process(inner));
  child->signal_group(SIGTERM);
  EXPECT_EQ(wait_for(*child).signal, SIGTERM);
  for (int tries = 0; tries < 12'000 && find_process(inner); ++tries) ::poll(nullptr, 0, 10);
  EXPECT_FALSE(find_process(inner));
}

TEST_F(ChildTest, ARunningProcessIsAdoptedButNotAnotherOneWithItsPid) {
  auto child = start("sleep 1000");
  ASSERT_OK(child);
  child->open_gate();
  ProcessIdentity process = child->process();
  EXPECT_TRUE(Child::adopt(process));
  ProcessIdentity stranger = process;
  stranger.started += 1;
  EXPECT_FALSE(Child::adopt(stranger));
  stranger = process;
  stranger.boot = "another";
  EXPECT_FALSE(Child::adopt(stranger));
  auto adopted = Child::adopt(process);
  adopted->signal_group(SIGKILL);
  EXPECT_EQ(wait_for(*child).signal, SIGKILL);
  EXPECT_FALSE(Child::adopt(process));
}

TEST(FindProgram, SearchesThePath) {
  EXPECT_EQ(find_program("sh", "/nowhere:/bin").take_value(), "/bin/sh");
  EXPECT_EQ(error_of(find_program("sh", "/nowhere")), Code::kNotFound);
  EXPECT_EQ(error_of(find_program("sh", "")), Code::kNotFound);
  EXPECT_EQ(error_of(find_program("sh", "bin:.")), Code::kNotFound);  // not relative to the relay's working directory
  EXPECT_EQ(error_of(find_program("/nowhere/sh", "/bin")), Code::kNotFound);
}

}  // namespace
}  // namespace warren::relay
