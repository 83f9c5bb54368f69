#include "changes/pinned/git_rest.h"

#include <chrono>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "changes/pinned/git_state.h"
#include "fs/host/host_fs.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

const std::string kOld(40, '1');
const std::string kNew(40, '2');
constexpr std::int64_t kMillisecond = 1'000'000;

// A repository on `main`. Files are an hour old by the fake clock, unless a test says otherwise.
class GitRestTest : public ::testing::Test {
 protected:
  GitRestTest() {
    clock_.jump_to({.seconds = 1'800'000'000});
    put("HEAD", "ref: refs/heads/main\n");
    put("index", "of main");
    put("refs/heads/main", kOld + "\n");
    put("refs/heads/release", kNew + "\n");
    std::filesystem::create_directories(dir_.path() + "/.git/objects");
    base_ = HostFs::open(dir_.path()).value();
  }

  void put(const std::string& name, const std::string& text, std::chrono::milliseconds age = std::chrono::hours(1)) {
    std::filesystem::path whole = dir_.path() + "/.git/" + name;
    std::filesystem::create_directories(whole.parent_path());
    std::filesystem::remove(whole);  // as git does: a new file takes the name
    std::ofstream(whole) << text;
    auto at = std::chrono::file_clock::from_sys(
        std::chrono::sys_time<std::chrono::nanoseconds>(std::chrono::microseconds(clock_.now_us()) - age));
    std::filesystem::last_write_time(whole, at);
  }
  // As `git checkout` does: the index first, then HEAD.
  void write_index_of(const std::string& branch) { put("index", "of " + branch, std::chrono::milliseconds(0)); }
  void write_head_of(const std::string& branch) { put("HEAD", "ref: refs/heads/" + branch + "\n"); }
  void remove_lock() { std::filesystem::remove(dir_.path() + "/.git/index.lock"); }

  Result<std::optional<GitState>> read() {
    return read_git_state(*base_, {clock_, [this] {
                                     ++pauses_;
                                     clock_.advance_ns(20 * kMillisecond);
                                     if (on_pause_) on_pause_();
                                   }});
  }
  static std::string content(const GitState& state, const std::string& path) {
    for (const GitStateNode& node : state.nodes) {
      if (node.path == path) return node.content;
    }
    return "nothing";
  }
  void expect_read(const std::string& branch) {
    Result<std::optional<GitState>> state = read();
    ASSERT_TRUE(state.ok() && *state);
    EXPECT_EQ(content(**state, "HEAD"), "ref: refs/heads/" + branch + "\n");
    EXPECT_EQ(content(**state, "index"), "of " + branch);
    EXPECT_EQ((*state)->head, branch == "main" ? kOld : kNew);
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<HostFs> base_;
  std::function<void()> on_pause_;
  int pauses_ = 0;
};

TEST_F(GitRestTest, ARepositoryInWhichNothingHappensIsReadAtOnce) {
  expect_read("main");
  EXPECT_EQ(pauses_, 0);
}

TEST_F(GitRestTest, AnIndexWhoseHeadIsStillToBeWrittenIsWaitedFor) {
  write_index_of("release");
  on_pause_ = [this] {
    if (pauses_ == 1) write_head_of("release");
  };
  expect_read("release");
  EXPECT_GT(pauses_, 1);
}

TEST_F(GitRestTest, ACheckoutDuringTheReadingStartsItAgain) {
  int times = 0;
  Status done = read_git_at_rest(*base_, "/.git", {clock_, [this] { clock_.advance_ns(20 * kMillisecond); }}, [&] {
    ++times;
    if (times == 1) {
      put("index", "of release");
      write_head_of("release");
      return Status(Error(Code::kNotFound, "a file that was there a moment ago"));
    }
    return Status(Ok{});
  });
  EXPECT_OK(done);
  EXPECT_EQ(times, 2);
}

TEST_F(GitRestTest, ABranchThatMovesDuringTheReadingStartsItAgain) {
  int times = 0;
  EXPECT_OK(read_git_at_rest(*base_, "/.git", {clock_, [] {}}, [&] {
    if (++times == 1) put("refs/heads/main", kNew + "\n");
    return Status(Ok{});
  }));
  EXPECT_EQ(times, 2);
}

TEST_F(GitRestTest, AnErrorOfARepositoryAtRestIsReturned) {
  Status done = read_git_at_rest(*base_, "/.git", {clock_, [] { FAIL(); }},
                                 [] { return Status(Error(Code::kCorrupt, "damaged")); });
  EXPECT_EQ(error_of(done), Code::kCorrupt);
}

TEST_F(GitRestTest, AYoungLockIsWaitedForAndAnOldOneIsNot) {
  put("index.lock", "", std::chrono::milliseconds(0));
  on_pause_ = [this] {
    if (pauses_ != 2) return;
    put("index", "of release");
    write_head_of("release");
    remove_lock();
  };
  expect_read("release");
  EXPECT_EQ(pauses_, 2);
  EXPECT_FALSE(has_old_git_lock(*base_, "/.git", clock_));
  put("index.lock", "");
  expect_read("release");
  EXPECT_EQ(pauses_, 2);
  write_index_of("release");
  EXPECT_TRUE(has_old_git_lock(*base_, "/.git", clock_));
}

TEST_F(GitRestTest, ARepositoryThatNeverRestsIsAnError) {
  on_pause_ = [this] { write_index_of(pauses_ % 2 == 0 ? "main" : "release"); };
  write_index_of("release");
  Result<std::optional<GitState>> state = read();
  EXPECT_EQ(error_of(state), Code::kBusy);
  EXPECT_EQ(pauses_, limits::kGitRestTries - 1);
}

}  // namespace
}  // namespace warren
