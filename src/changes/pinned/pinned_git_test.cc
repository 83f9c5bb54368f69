#include "changes/pinned/pinned_git.h"

#include <chrono>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "changes/changes.h"
#include "changes/undo/discard.h"
#include "fs/forwarding_fs.h"
#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

const std::string kFirst(40, '1');
const std::string kSecond(40, '2');

// A base with the files of a repository, and an agent on it that is opened again with each call of open().
class PinnedGitTest : public ::testing::Test {
 protected:
  PinnedGitTest() {
    put("/file", "1\n");
    put("/.git/HEAD", "ref: refs/heads/main\n");
    put("/.git/index", "DIRC");
    put("/.git/config", "[core]\n");
    put("/.git/packed-refs", "# pack-refs with: peeled\n" + kFirst + " refs/heads/main\n" + kFirst + " refs/tags/v1\n");
    put("/.git/refs/heads/main", kSecond + "\n");
    put("/.git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/main\n");
    put("/.git/objects/aa/old", "object");
    put("/.git/hooks/pre-push", "true\n");
    put("/.git/logs/HEAD", "log\n");
    put("/.git/index.lock", "");
    store_ = Store::open(dir_.path() + "/a.db", {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_)
                 .value();
    EXPECT_OK(make_overlay(*store_, base_path_));
    rows_ = OverlayRows::open(*store_).value();
    open();
  }

  void put(const std::string& path, const std::string& text) {
    std::filesystem::path whole = base_path_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
    // Long ago, so that nobody waits for a git command that would be writing it (changes/pinned/git_rest.h).
    std::filesystem::last_write_time(whole, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  void open() {
    merged_.reset();
    base_ = HostFs::open(base_path_).value();
    merged_ = OverlayFs::open(*rows_, *base_).value();
  }
  AgentOverlay overlay() { return {*rows_, *base_, *merged_, base_path_, agent_path_, note_, hidden_}; }
  void pin() {
    Result<bool> done = pin_git(overlay());
    ASSERT_TRUE(done.ok() && *done);
    open();
  }
  bool is_pinned_at_all() {
    Result<bool> done = pin_git(overlay());
    EXPECT_TRUE(done.ok());
    return done.ok() && *done;
  }
  std::string shown(const std::string& path) {
    Result<std::string> text = read_file(*merged_, path);
    return text.ok() ? *text : "nothing";
  }
  void write(const std::string& path, const std::string& text) {
    EXPECT_OK(write_file(*merged_, path, as_bytes(text)));
  }
  std::vector<std::string> changed() {
    std::vector<std::string> paths;
    for (const TreeChange& change : list_changes(overlay()).value())
      paths.push_back(change.letter() + (" " + change.path));
    return paths;
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string base_path_ = dir_.path() + "/base";
  std::string agent_path_ = dir_.path() + "/a.db";
  std::optional<BaseNote> note_;
  std::vector<std::string> hidden_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<OverlayRows> rows_;
  std::unique_ptr<HostFs> base_;
  std::unique_ptr<OverlayFs> merged_;
};

// Counts the reads of files' contents.
class WatchedReads final : public ForwardingFs {
 public:
  WatchedReads(FileSystem& inner, Database& database) : ForwardingFs(inner), database_(database) {}

  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override {
    ++reads_;
    if (database_.is_in_transaction()) ++reads_in_transaction_;
    return ForwardingFs::read(node, offset, out);
  }

  int reads() const { return reads_; }
  int reads_in_transaction() const { return reads_in_transaction_; }

 private:
  Database& database_;
  int reads_ = 0;
  int reads_in_transaction_ = 0;
};

TEST(PinRecord, HeadAndReferencesAreReadAsTheyWereWritten) {
  GitReferences references{{"refs/heads/main", kFirst}, {"refs/tags/v1", kSecond}};
  PinnedGit read = parse_pin_record(write_pin_record(kSecond, references, {.seconds = 5, .nanoseconds = 7}));
  EXPECT_EQ(read.head, kSecond);
  EXPECT_EQ(read.references, references);
  EXPECT_EQ(parse_pin_record(write_pin_record("", references, {})).head, "");
  EXPECT_EQ(parse_pin_record("rubbish\n").head, "");
}

TEST_F(PinnedGitTest, TheStateStaysWhateverTheBaseDoes) {
  pin();
  put("/.git/HEAD", "ref: refs/heads/other\n");
  put("/.git/index", "another");
  put("/.git/refs/heads/main", kFirst + "\n");
  put("/.git/refs/heads/new", kFirst + "\n");
  put("/.git/MERGE_HEAD", kFirst + "\n");
  open();
  EXPECT_EQ(shown("/.git/HEAD"), "ref: refs/heads/main\n");
  EXPECT_EQ(shown("/.git/index"), "DIRC");
  EXPECT_EQ(shown("/.git/refs/heads/main"), "nothing");
  EXPECT_EQ(shown("/.git/refs/heads/new"), "nothing");
  EXPECT_EQ(shown("/.git/refs/remotes/origin/HEAD"), "ref: refs/remotes/origin/main\n");
  EXPECT_EQ(shown("/.git/packed-refs"),
            "# pack-refs with: sorted \n" + kSecond + " refs/heads/main\n" + kFirst + " refs/tags/v1\n");
  EXPECT_EQ(shown("/.git/MERGE_HEAD"), "nothing");
  EXPECT_EQ(shown("/.git/index.lock"), "nothing");
  EXPECT_EQ(changed(), std::vector<std::string>{});
  PinnedGit pinned = find_pinned_git(overlay()).value().value();
  EXPECT_EQ(pinned.head, kSecond);
  EXPECT_EQ(pinned.references, (GitReferences{{"refs/heads/main", kSecond}, {"refs/tags/v1", kFirst}}));
}

TEST_F(PinnedGitTest, LogsThatGitAppendsToAreThoseOfTheStart) {
  put("/.git/logs/refs/heads/a/b", "first\n");
  put("/.git/logs/refs/remotes/origin/main", "first\n");
  pin();
  put("/.git/logs/HEAD", "log\nlater\n");
  put("/.git/logs/refs/stash", "a stash of the host\n");
  put("/.git/logs/refs/heads/a/b", "first\nlater\n");
  put("/.git/logs/refs/heads/new", "later\n");
  put("/.git/logs/refs/remotes/origin/main", "first\nlater\n");
  open();
  EXPECT_EQ(shown("/.git/logs/HEAD"), "log\n");
  EXPECT_EQ(shown("/.git/logs/refs/stash"), "nothing");
  EXPECT_EQ(shown("/.git/logs/refs/heads/a/b"), "first\n");
  EXPECT_EQ(shown("/.git/logs/refs/heads/new"), "nothing");
  EXPECT_EQ(shown("/.git/logs/refs/remotes/origin/main"), "first\nlater\n");
  EXPECT_EQ(changed(), std::vector<std::string>{});
}

TEST_F(PinnedGitTest, ObjectsAndHooksAreTheBasesAsTheyAreNow) {
  pin();
  put("/.git/objects/bb/new", "object");
  put("/.git/hooks/pre-push", "false\n");
  EXPECT_EQ(shown("/.git/objects/aa/old"), "object");
  EXPECT_EQ(shown("/.git/objects/bb/new"), "object");
  EXPECT_EQ(shown("/.git/hooks/pre-push"), "false\n");
  write("/.git/objects/cc/mine", "object");
  write("/.git/hooks/pre-push", "mine\n");
  open();
  EXPECT_EQ(shown("/.git/objects/bb/new"), "object");
  EXPECT_EQ(shown("/.git/objects/cc/mine"), "object");
  EXPECT_EQ(changed(),
            (std::vector<std::string>{"M /.git/hooks/pre-push", "A /.git/objects/cc", "A /.git/objects/cc/mine"}));
}

TEST_F(PinnedGitTest, WhatTheAgentChangesInItIsAChange) {
  pin();
  write("/.git/HEAD", "ref: refs/heads/work\n");
  write("/.git/refs/heads/work", kFirst + "\n");
  EXPECT_EQ(changed(), (std::vector<std::string>{"M /.git/HEAD", "A /.git/refs/heads/work"}));
}

TEST_F(PinnedGitTest, ARecordThatTheAgentMadeTooLargeCountsAsNoneAndADiscardMakesItAgain) {
  pin();
  std::string path = fmt::format("/.git/{}", kPinRecord);
  write(path, "");
  ASSERT_OK(merged_->write(stat(*merged_, path).value().inode, limits::kGitPackedRefsBytes, as_bytes("x")));
  Result<std::optional<PinnedGit>> pinned = find_pinned_git(overlay());
  ASSERT_OK(pinned);
  EXPECT_FALSE(pinned->has_value());
  open();
  ASSERT_OK(discard_changes(overlay(), {}));
  open();
  EXPECT_EQ(find_pinned_git(overlay()).value().value().head, kSecond);
  EXPECT_EQ(changed(), std::vector<std::string>{});
}

TEST_F(PinnedGitTest, TheCopiedIndexIsOlderThanTheIndex) {
  pin();
  Timestamp copied = stat(*merged_, "/.git/index").value().mtime;
  EXPECT_LT(copied, stat(*base_, "/.git/index").value().mtime);
  EXPECT_EQ(copied, stat(*merged_, "/.git/HEAD").value().mtime);
}

TEST_F(PinnedGitTest, ARepositoryWithLinksForItsStateIsLeftAsItIs) {
  std::filesystem::rename(base_path_ + "/.git/HEAD", base_path_ + "/head");
  std::filesystem::create_symlink("../head", base_path_ + "/.git/HEAD");
  EXPECT_FALSE(is_pinned_at_all());
  open();
  put("/.git/index", "another");
  EXPECT_EQ(shown("/.git/index"), "another");
}

TEST_F(PinnedGitTest, AWorktreesDirectoryOrNoRepositoryIsLeftAsItIs) {
  put("/.git/commondir", "..\n");
  EXPECT_FALSE(is_pinned_at_all());
  std::filesystem::remove_all(base_path_ + "/.git");
  put("/.git", "gitdir: /elsewhere\n");
  EXPECT_FALSE(is_pinned_at_all());
  std::filesystem::remove(base_path_ + "/.git");
  EXPECT_FALSE(is_pinned_at_all());
}

TEST_F(PinnedGitTest, DiscardingAHookKeepsTheStateAndDiscardingAllTakesTheBasesOfNow) {
  pin();
  write("/.git/HEAD", "ref: refs/heads/work\n");
  write("/.git/hooks/pre-push", "mine\n");
  open();
  ASSERT_OK(discard_changes(overlay(), [](std::string_view path) { return path == "/.git/hooks/pre-push"; }));
  open();
  EXPECT_EQ(changed(), std::vector<std::string>{"M /.git/HEAD"});
  EXPECT_EQ(shown("/.git/objects/aa/old"), "object");
  put("/.git/index", "another");
  write("/file", "2\n");
  open();
  ASSERT_OK(discard_changes(overlay(), {}));
  open();
  EXPECT_EQ(changed(), std::vector<std::string>{});
  EXPECT_EQ(shown("/.git/HEAD"), "ref: refs/heads/main\n");
  EXPECT_EQ(shown("/.git/index"), "another");
  EXPECT_EQ(shown("/.git/objects/aa/old"), "object");
  put("/.git/index", "a third");
  EXPECT_EQ(shown("/.git/index"), "another");
}

TEST_F(PinnedGitTest, ADiscardReadsTheBasesStateOfGitBeforeItHoldsTheSession) {
  pin();
  write("/.git/mine", "mine\n");
  open();
  WatchedReads base(*base_, store_->database());
  AgentOverlay watched{*rows_, base, *merged_, base_path_, agent_path_, note_, hidden_};
  ASSERT_OK(discard_changes(watched, {}));
  EXPECT_GT(base.reads(), 0);
  EXPECT_EQ(base.reads_in_transaction(), 0);
}

}  // namespace
}  // namespace warren
