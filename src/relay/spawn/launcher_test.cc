#include "relay/spawn/launcher.h"

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    work = dir.path() + "/work";
    EXPECT_OK(make_host_dirs(work + "/project", 0700));
    root = Root::open(dir.path() + "/root", MakeRoot::kYes).take_value();
    EXPECT_OK(root->make_agent("w"));
    config.clis["run"] = {.argv = {"sh", "-c", "{prompt}", "{dir}"}};
    config.clis["boxed"] = {.argv = {"sh", "{name}"}, .is_sandboxed = true};
    config.roots = {work};
    config.env = {"TASK", "*"};
    request.name = "w";
    request.cli = "run";
  }
  bool has(const std::vector<std::string>& env, std::string_view start) {
    return std::any_of(env.begin(), env.end(), [&](const std::string& one) { return one.starts_with(start); });
  }

  testing::TempDir dir;
  std::string work;
  std::unique_ptr<Root> root;
  SpawnConfig config;
  SpawnRequest request;
  LauncherOptions options{"/opt/warren", {"PATH=/usr/bin:/bin", "HOME=/h", "LD_PRELOAD=/x", "TASK=old", "broken"}};
};

TEST_F(LauncherTest, TheProcessGetsWhatIsAllowed) {
  Launcher launcher(*root, config, options);
  request.prompt = "{dir} $HOME";
  request.working_dir = work + "/project/";
  request.env = {{"TASK", "new"}};
  ASSERT_OK(launcher.check(request));
  auto prepared = launcher.prepare(request, "secret", 7);
  ASSERT_OK(prepared);
  EXPECT_EQ(prepared->spec.argv, (std::vector<std::string>{"sh", "-c", "{dir} $HOME", prepared->dir}));
  EXPECT_TRUE(prepared->dir.ends_with("/work/project"));
  const std::vector<std::string>& env = prepared->spec.env;
  EXPECT_TRUE(has(env, "HOME=/h") && has(env, "TASK=new") && has(env, "AGENT_RELAY_TOKEN=secret"));
  EXPECT_TRUE(has(env, "AGENT_RELAY_CONTINUITY=7"));
  EXPECT_FALSE(has(env, "LD_PRELOAD") || has(env, "TASK=old") || has(env, "broken"));
}

TEST_F(LauncherTest, ASandboxedProgramIsWrappedInRun) {
  Launcher launcher(*root, config, options);
  request.cli = "boxed";
  auto prepared = launcher.prepare(request, "", 0);
  ASSERT_OK(prepared);
  EXPECT_EQ(prepared->spec.program, "/opt/warren");
  EXPECT_EQ(prepared->spec.argv[1], "run");
  EXPECT_EQ(prepared->spec.argv.back(), "w");
  EXPECT_FALSE(has(prepared->spec.env, "AGENT_RELAY_CONTINUITY"));
}

TEST_F(LauncherTest, WorkingDirectoriesStayBelowTheirRoots) {
  Launcher launcher(*root, config, options);
  ASSERT_EQ(::symlink("/etc", (work + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("project", (work + "/inner").c_str()), 0);
  for (std::string path : {"/etc", "/", "..", "project/../..", "link", "inner", "project/../project"}) {
    request.working_dir = path;
    EXPECT_EQ(error_of(launcher.check(request)), Code::kDenied) << path;
  }
  for (std::string path : {"link", "-beside", "/../work"}) {
    request.working_dir = path == "link" ? work + "/link" : work + path;
    EXPECT_EQ(error_of(launcher.check(request)), Code::kDenied) << path;
  }
  for (std::string path : {std::string(), std::string("project"), std::string("."), work, work + "//project"}) {
    request.working_dir = path;
    EXPECT_OK(launcher.check(request)) << path;
  }
  config.roots.clear();
  request.working_dir = work;
  EXPECT_EQ(error_of(launcher.check(request)), Code::kDenied);
  request.working_dir = "";
  EXPECT_OK(launcher.check(request));
}

TEST_F(LauncherTest, OnlyListedProgramsRun) {
  Launcher launcher(*root, config, options);
  request.cli = "sh";
  EXPECT_EQ(error_of(launcher.check(request)), Code::kDenied);
  request.cli = "run";
  request.prompt = std::string(200'000, 'x');
  EXPECT_EQ(error_of(launcher.check(request)), Code::kTooLarge);
  request.prompt = "";
  request.env = {{"LD_AUDIT", "x"}};
  EXPECT_EQ(error_of(launcher.check(request)), Code::kDenied);
  config.clis.clear();
  EXPECT_EQ(error_of(launcher.check(request)), Code::kUnsupported);
}

}  // namespace
}  // namespace warren::relay
