#include "vfs/guard_fs.h"

#include <array>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/no_wait.h"
#include "fs/expiry.h"
#include "fs/forwarding_fs.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GuardTest : public ::testing::Test {
 protected:
  GuardTest() {
    space_ = Namespace::open(own_, working_, {.agent = "a1"}, clock_).take_value();
    user_ = space_->view({.agent = "a1", .space = Space::kUser, .door = "test", .session = {}});
    kernel_ = space_->view({.agent = "a1", .space = Space::kKernel, .door = "test", .session = {}});
  }

  void set_policy(const std::string& text) {
    clock_.advance_ns(1'000);
    Status set = LivePolicy::replace(own_, text, "test", clock_);
    ASSERT_TRUE(set.ok()) << set.error().message();
  }
  template <class T>
  static Code code(const Result<T>& result) {
    return result.ok() ? Code{} : result.error().code();
  }

  testing::FakeClock clock_;
  MemoryFs own_{clock_};
  MemoryFs working_{clock_};
  std::unique_ptr<Namespace> space_;
  std::unique_ptr<NamespaceView> user_;
  std::unique_ptr<NamespaceView> kernel_;
};

TEST_F(GuardTest, ACallerWithARootUsesOnlyWhatIsBelowIt) {
  for (const char* path : {"/work/a", "/workshop/b", "/c"}) ASSERT_OK(write_file(*kernel_, path, as_bytes("x")));
  auto rooted = space_->view({.agent = "a1", .space = Space::kUser, .door = "test", .session = {}, .root = "/work"});
  EXPECT_OK(read_file(*rooted, "/work/a"));
  EXPECT_OK(write_file(*rooted, "/work/new/n", as_bytes("y")));
  for (const char* path : {"/workshop/b", "/c"}) {
    EXPECT_EQ(code(read_file(*rooted, path)), Code::kDenied) << path;
    EXPECT_EQ(code(write_file(*rooted, path, as_bytes("y"))), Code::kDenied) << path;
    EXPECT_EQ(code(unlink(*rooted, path)), Code::kDenied) << path;
  }
  EXPECT_EQ(code(read_dir(*rooted, "/")), Code::kDenied);
  EXPECT_EQ(code(rename(*rooted, "/work/a", "/out")), Code::kDenied);
  EXPECT_EQ(code(rename(*rooted, "/c", "/work/c")), Code::kDenied);
  EXPECT_EQ(code(link(*rooted, "/c", "/work/c")), Code::kDenied);
  EXPECT_EQ(code(lstat(*rooted, "/c")), Code::kDenied);
  EXPECT_EQ(code(exists(*rooted, "/workshop")), Code::kDenied);
  EXPECT_OK(lstat(*rooted, "/work/a"));
  ASSERT_OK(make_symlink(*rooted, "/c", "/work/link"));
  EXPECT_EQ(code(read_file(*rooted, "/work/link")), Code::kDenied);
  EXPECT_THAT(read_file(*rooted, "/c").error().message(), HasSubstr("only what is below '/work' may be used"));
}

// One row of the specification's table, for one space.
struct Cell {
  const char* dir;
  Space space;
  bool read, list, overwrite, append, create, remove;
};
constexpr std::array<Cell, 18> kCells{{
    {"/mem/working", Space::kUser, true, true, true, true, true, true},
    {"/mem/working", Space::kKernel, true, true, true, true, true, true},
    {"/mem/semantic", Space::kUser, true, true, true, true, true, true},
    {"/mem/semantic", Space::kKernel, true, true, true, true, true, true},
    {"/mem/episodic", Space::kUser, true, true, false, true, true, false},
    {"/mem/episodic", Space::kKernel, true, true, false, true, true, false},
    {"/state/checkpoints", Space::kUser, true, true, true, true, true, true},
    {"/state/checkpoints", Space::kKernel, true, true, true, true, true, true},
    {"/policy", Space::kUser, true, true, false, false, false, false},
    {"/policy", Space::kKernel, true, true, true, true, true, true},
    {"/audit", Space::kUser, true, true, false, false, false, false},
    {"/audit", Space::kKernel, true, true, false, true, true, false},
    {"/ipc/inbox", Space::kUser, true, true, false, false, false, true},
    {"/ipc/inbox", Space::kKernel, false, false, true, true, true, false},
    {"/ipc/outbox", Space::kUser, false, false, true, true, true, false},
    {"/ipc/outbox", Space::kKernel, true, true, false, false, false, true},
    {"/", Space::kUser, true, true, true, true, true, true},
    {"/", Space::kKernel, true, true, true, true, true, true},
}};

class Section33Test : public GuardTest, public ::testing::WithParamInterface<Cell> {
 protected:
  std::string path(const std::string& name) const {
    return std::string(GetParam().dir) == "/" ? "/" + name : GetParam().dir + ("/" + name);
  }
  Result<Inode> node(FileSystem& fs, const std::string& name) {
    Attributes found = WARREN_TRY(lstat(fs, path(name)));
    return found.inode;
  }
};

// Every call of the interface that could do the operation, not only the plainest one.
TEST_P(Section33Test, EveryCallObeysTheTable) {
  const Cell& cell = GetParam();
  FileSystem& below = std::string(cell.dir) == "/mem/working" ? static_cast<FileSystem&>(working_) : own_;
  std::string prefix = &below == &working_ ? "" : (std::string(cell.dir) == "/" ? "" : cell.dir);
  for (const char* name : {"/f", "/g", "/h", "/d/x"}) {
    ASSERT_TRUE(write_file(below, prefix + name, as_bytes("0123456789")).ok());
  }
  FileSystem& fs = cell.space == Space::kUser ? *user_ : *kernel_;
  auto expect = [&](bool is_allowed, const auto& result, const char* what) {
    EXPECT_EQ(is_allowed ? Code{} : Code::kDenied, code(result)) << what;
  };
  std::array<std::byte, 4> buffer{};
  Inode f = node(fs, "f").value();
  EXPECT_TRUE(fs.get_attributes(f).ok());
  expect(cell.read, fs.read(f, 0, buffer), "read");
  expect(cell.read, fs.seek_data(f, 0), "seek_data");
  expect(cell.read, fs.seek_hole(f, 0), "seek_hole");
  expect(cell.read, fs.list_xattrs(f), "list_xattrs");
  expect(cell.list, fs.open_dir(lstat(fs, cell.dir)->inode), "open_dir");
  expect(cell.append, fs.append(f, as_bytes("a")), "append");
  expect(cell.overwrite || cell.append, fs.write(f, fs.get_attributes(f)->size, as_bytes("b")), "write at the end");
  expect(cell.overwrite, fs.write(f, 0, as_bytes("c")), "write");
  expect(cell.overwrite, fs.set_attributes(f, {.size = 3}), "truncate");
  expect(cell.overwrite, fs.set_attributes(f, {.mode = 0600}), "chmod");
  expect(cell.overwrite, fs.allocate(f, AllocateMode::kPunchHole, 0, 2), "punch a hole");
  expect(cell.overwrite, fs.allocate(f, AllocateMode::kZeroRange, 0, 2), "zero");
  expect(cell.overwrite && cell.read, fs.copy_range(node(fs, "g").value(), 0, f, 0, 2), "copy_range");
  expect(cell.overwrite, fs.set_xattr(f, "user.x", as_bytes("1"), XattrMode::kAny), "set_xattr");
  expect(cell.create, make_dir(fs, path("new_dir")), "make_dir");
  expect(cell.create, make_symlink(fs, "f", path("new_link")), "make_symlink");
  expect(cell.create, make_node(fs, path("new_fifo"), {.mode = S_IFIFO | 0600}), "make_node");
  expect(cell.create, fs.create(lstat(fs, cell.dir)->inode, "new_file", {.mode = 0644}), "create");
  expect(cell.create, link(fs, path("f"), path("new_name")), "link");
  expect(cell.overwrite, rename(fs, path("g"), path("g2")), "rename");
  bool is_queue = std::string(cell.dir).starts_with("/ipc");
  Status over = cell.overwrite ? rename(fs, path("g2"), path("h")) : rename(fs, path("g"), path("h"));
  expect(cell.overwrite && (cell.remove || is_queue), over, "rename over");
  expect(cell.remove, unlink(fs, path("f")), "unlink");
  ASSERT_TRUE(make_dir(below, prefix + "/empty").ok());
  expect(cell.remove, remove_dir(fs, path("empty")), "remove_dir");
}

INSTANTIATE_TEST_SUITE_P(Table, Section33Test, ::testing::ValuesIn(kCells));

TEST_F(GuardTest, ANameThatOnlyBeginsLikeARegionIsPlain) {
  EXPECT_TRUE(write_file(*user_, "/policyX/a", as_bytes("x")).ok());
  EXPECT_TRUE(write_file(*user_, "/mem/episodicX", as_bytes("x")).ok());
  EXPECT_TRUE(write_file(*user_, "/mem/episodicX", as_bytes("y")).ok());
}

TEST_F(GuardTest, WaysAroundTheTableAreRefused) {
  ASSERT_TRUE(write_file(*kernel_, "/policy/note", as_bytes("x")).ok());
  ASSERT_TRUE(append_file(*user_, "/mem/episodic/log", as_bytes("1\n")).ok());
  EXPECT_EQ(code(write_file(*user_, "/mem/../policy/note", as_bytes("y"))), Code::kDenied);
  EXPECT_EQ(code(write_file(*user_, "//policy/./note", as_bytes("y"))), Code::kDenied);
  ASSERT_TRUE(make_symlink(*user_, "/policy", "/mem/link").ok());
  EXPECT_EQ(code(write_file(*user_, "/mem/link/note", as_bytes("y"))), Code::kDenied);
  EXPECT_EQ(code(rename(*user_, "/policy", "/mem/p")), Code::kDenied);
  EXPECT_EQ(code(rename(*user_, "/mem/episodic", "/mem/old")), Code::kDenied);
  EXPECT_EQ(code(rename(*user_, "/mem", "/m2")), Code::kDenied);
  EXPECT_EQ(code(link(*user_, "/policy/note", "/mem/note")), Code::kCrossDevice);
  EXPECT_EQ(code(link(*user_, "/mem/episodic/log", "/mem/log")), Code::kCrossDevice);
  EXPECT_EQ(code(rename(*user_, "/mem/episodic/log", "/mem/log")), Code::kDenied);
  ASSERT_TRUE(write_file(*user_, "/mem/new", as_bytes("z")).ok());
  EXPECT_EQ(code(rename(*user_, "/mem/new", "/mem/episodic/log")), Code::kDenied);
  EXPECT_EQ(code(rename(*user_, "/mem/new", "/mem/episodic/log", RenameMode::kExchange)), Code::kDenied);
  EXPECT_EQ(read_file(own_, "/policy/note").value(), "x");
  EXPECT_EQ(read_file(own_, "/mem/episodic/log").value(), "1\n");
}

TEST_F(GuardTest, ANameThatNobodyHasUsedCountsToo) {
  ASSERT_TRUE(write_file(*user_, "/reports/done/r", as_bytes("final")).ok());
  ASSERT_TRUE(write_file(*user_, "/mem/working/deep/w", as_bytes("final")).ok());
  ASSERT_TRUE(make_dir(*user_, "/own").ok());
  ASSERT_TRUE(link(*user_, "/reports/done/r", "/own/r").ok());
  ASSERT_TRUE(link(*user_, "/mem/working/deep/w", "/mem/working/w").ok());
  set_policy(R"({"version": 1, "rules": [
    {"path": "/reports/**", "operation": "overwrite", "effect": "deny"},
    {"path": "/mem/working/deep/**", "operation": "overwrite", "effect": "deny"}]})");
  // Another process, which has seen nothing yet.
  std::unique_ptr<Namespace> other = Namespace::open(own_, working_, {.agent = "a1"}, clock_).take_value();
  std::unique_ptr<NamespaceView> view =
      other->view({.agent = "a1", .space = Space::kUser, .door = "test", .session = {}});
  EXPECT_EQ(code(write_file(*view, "/own/r", as_bytes("other"))), Code::kDenied);
  EXPECT_EQ(code(write_file(*view, "/mem/working/w", as_bytes("other"))), Code::kDenied);
  EXPECT_EQ(code(link(*view, "/own/r", "/own/again")), Code::kCrossDevice);
  EXPECT_TRUE(append_file(*view, "/own/r", as_bytes("")).ok());
  EXPECT_EQ(read_file(own_, "/reports/done/r").value(), "final");
  EXPECT_EQ(read_file(*view, "/mem/working/deep/w").value(), "final");
}

TEST_F(GuardTest, AMovedDirectoryHasTheRulesOfItsNewPlace) {
  set_policy(R"({"version": 1, "rules": [{"path": "/shut/**", "operation": "write", "effect": "deny"}]})");
  ASSERT_TRUE(write_file(*user_, "/open/dir/file", as_bytes("x")).ok());
  Inode file = stat(*user_, "/open/dir/file")->inode;
  ASSERT_TRUE(make_dirs(own_, "/shut").ok());
  EXPECT_EQ(code(rename(*user_, "/open/dir", "/shut/dir")), Code::kDenied);
  ASSERT_TRUE(rename(*user_, "/open", "/other").ok());
  EXPECT_TRUE(user_->write(file, 0, as_bytes("y")).ok());
  ASSERT_TRUE(rename(own_, "/other/dir", "/shut/dir").ok());  // by another door
  ASSERT_TRUE(stat(*user_, "/shut/dir/file").ok());
  EXPECT_EQ(code(user_->write(file, 0, as_bytes("z"))), Code::kDenied);
}

TEST_F(GuardTest, ADirectoryWithProtectedFilesCannotBeRenamedOutOfItsRule) {
  ASSERT_TRUE(write_file(own_, "/data/a/secret", as_bytes("x")).ok());
  set_policy(
      R"({"version": 1, "rules": [{"path": "/data/*/secret", "operation": ["read", "write"], "effect": "deny"}]})");
  EXPECT_EQ(code(rename(*user_, "/data", "/moved")), Code::kCrossDevice);
  EXPECT_EQ(code(rename(*user_, "/data/a", "/a")), Code::kCrossDevice);
  EXPECT_TRUE(rename(*user_, "/data/a", "/data/b").ok());  // the same rule holds there
  EXPECT_EQ(code(read_file(*user_, "/data/b/secret")), Code::kDenied);
}

TEST_F(GuardTest, AMoveDoesNotMakeReadableWhatWasNot) {
  ASSERT_TRUE(write_file(own_, "/secrets/key", as_bytes("TOP")).ok());
  ASSERT_TRUE(write_file(own_, "/vault/key", as_bytes("TOP")).ok());
  ASSERT_TRUE(write_file(own_, "/own", as_bytes("mine")).ok());
  set_policy(R"({"version": 1, "rules": [
      {"space": "user", "path": "/secrets", "operation": "read", "effect": "deny"},
      {"space": "user", "path": "/vault", "operation": ["read", "list", "write"], "effect": "deny"}]})");
  EXPECT_EQ(code(rename(*user_, "/secrets/key", "/k")), Code::kCrossDevice);
  EXPECT_EQ(code(rename(*user_, "/vault/key", "/k")), Code::kCrossDevice);
  EXPECT_EQ(code(rename(*user_, "/own", "/secrets/key", RenameMode::kExchange)), Code::kCrossDevice);
  EXPECT_EQ(code(rename(*user_, "/secrets/key", "/own", RenameMode::kExchange)), Code::kCrossDevice);
  EXPECT_EQ(code(rename(*user_, "/secrets/key", "/own")), Code::kCrossDevice);
  EXPECT_TRUE(rename(*user_, "/secrets/key", "/secrets/key2").ok());
  EXPECT_TRUE(rename(*user_, "/own", "/secrets/mine").ok());
  EXPECT_TRUE(rename(*kernel_, "/vault/key", "/k").ok());  // the rule is not for it
}

// Messages can be claimed by moving them: whoever may read and delete may do that as well by copying.
TEST_F(GuardTest, AMessageCanBeMovedOutOfTheInbox) {
  ASSERT_TRUE(write_file(own_, "/ipc/inbox/1", as_bytes("hello")).ok());
  EXPECT_TRUE(rename(*user_, "/ipc/inbox/1", "/state/1").ok());
}

TEST_F(GuardTest, ATimeToLiveNeedsTheRightToDelete) {
  set_policy(R"({"version": 1, "rules": [{"path": "/logs", "operation": "delete", "effect": "deny"}]})");
  for (const char* path : {"/ipc/outbox/o", "/logs/a"}) {
    ASSERT_TRUE(write_file(*user_, path, as_bytes("message")).ok());
    Inode node = lstat(*user_, path)->inode;
    EXPECT_EQ(code(user_->set_xattr(node, kExpiryXattr, as_bytes("1"), XattrMode::kAny)), Code::kDenied) << path;
    EXPECT_TRUE(user_->set_xattr(node, "user.other", as_bytes("1"), XattrMode::kAny).ok());
    EXPECT_EQ(code(write_file(*user_, path, as_bytes("gone"), {.expires_at_ms = 4'000'000'000'000})), Code::kDenied);
    EXPECT_EQ(find_expiry(own_, node).value(), std::nullopt);
    ASSERT_TRUE(write_file(*user_, "/state/soon", as_bytes("x"), {.expires_at_ms = 4'000'000'000'000}).ok());
    EXPECT_EQ(code(rename(*user_, "/state/soon", path)), Code::kDenied);
    EXPECT_EQ(code(rename(*user_, "/state/soon", std::string(path) + "2")), Code::kDenied);
  }
}

TEST_F(GuardTest, CopyingToTheEndIsAppending) {
  ASSERT_TRUE(write_file(*user_, "/source", as_bytes("content")).ok());
  ASSERT_TRUE(append_file(*user_, "/mem/episodic/log", as_bytes("1\n")).ok());
  Inode from = stat(*user_, "/source")->inode;
  Inode to = stat(*user_, "/mem/episodic/log")->inode;
  EXPECT_EQ(user_->copy_range(from, 0, to, 2, 7).value(), 7U);
  EXPECT_EQ(code(user_->copy_range(from, 0, to, 3, 2)), Code::kDenied);
  EXPECT_EQ(code(user_->copy_range(from, 0, to, 100, 2)), Code::kDenied);
  EXPECT_EQ(read_file(own_, "/mem/episodic/log").value(), "1\ncontent");
}

TEST_F(GuardTest, APolicyHoldsForADirectoryThatIsOpen) {
  ASSERT_TRUE(write_file(own_, "/shut/file", as_bytes("x")).ok());
  std::unique_ptr<DirStream> stream = user_->open_dir(stat(*user_, "/shut")->inode).value();
  ASSERT_TRUE(stream->read(0, 10, DirDetail::kNames).ok());
  set_policy(R"({"version": 1, "rules": [{"path": "/shut", "operation": "list", "effect": "deny"}]})");
  EXPECT_EQ(code(stream->read(0, 10, DirDetail::kNames)), Code::kDenied);
}

TEST_F(GuardTest, ANameThatIsRemovedElsewhereDoesNotDecideAnyMore) {
  set_policy(R"({"version": 1, "rules": [{"path": "/secret", "operation": "read", "effect": "deny"}]})");
  ASSERT_TRUE(write_file(own_, "/secret/a", as_bytes("x")).ok());
  ASSERT_TRUE(write_file(own_, "/public/b", as_bytes("x")).ok());
  ASSERT_TRUE(link(own_, "/secret/a", "/public/a").ok());
  EXPECT_EQ(code(read_file(*user_, "/public/a")), Code::kDenied);
  ASSERT_TRUE(unlink(own_, "/secret/a").ok());
  EXPECT_EQ(read_file(*user_, "/public/a").value(), "x");
}

TEST_F(GuardTest, ANameThatIsMovedElsewhereDecidesByItsNewPlace) {
  const std::string rules = R"({"version": 1, "rules": [{"path": "/secret", "operation": "read", "effect": "deny"}]})";
  set_policy(rules);
  ASSERT_TRUE(write_file(own_, "/a", as_bytes("x")).ok());
  ASSERT_TRUE(link(own_, "/a", "/b").ok());
  EXPECT_EQ(read_file(*user_, "/a").value(), "x");
  EXPECT_EQ(read_file(*user_, "/b").value(), "x");
  ASSERT_TRUE(make_dir(own_, "/secret").ok());
  ASSERT_TRUE(rename(own_, "/b", "/secret/b").ok());
  set_policy(rules);  // decided again
  EXPECT_EQ(code(read_file(*user_, "/a")), Code::kDenied);
}

TEST_F(GuardTest, StandardDirectoriesAreNotLinks) {
  EXPECT_EQ(code(remove_dir(*user_, "/state/checkpoints")), Code::kDenied);
  EXPECT_EQ(code(rename(*user_, "/state/checkpoints", "/elsewhere")), Code::kDenied);
  ASSERT_TRUE(remove_dir(*kernel_, "/state/checkpoints").ok());
  ASSERT_TRUE(remove_dir(*kernel_, "/state").ok());
  EXPECT_EQ(code(make_symlink(*user_, "policy", "/state")), Code::kDenied);
  ASSERT_TRUE(make_symlink(*user_, "policy", "/link").ok());
  EXPECT_EQ(code(rename(*user_, "/link", "/state")), Code::kDenied);
  // By a door without rules, or forged.
  ASSERT_TRUE(make_symlink(own_, "policy", "/state").ok());
  EXPECT_EQ(code(write_file(*kernel_, "/state/x", as_bytes("x"))), Code::kDenied);
  ASSERT_TRUE(Namespace::open(own_, working_, {.agent = "a1"}, clock_).ok());
  EXPECT_EQ(code(lstat(own_, "/policy/checkpoints")), Code::kNotFound);
  EXPECT_EQ(code(follow_links(own_, "/state/x")), Code::kDenied);
  EXPECT_EQ(follow_links(own_, "/link/x/y").value(), "/policy/x/y");
  EXPECT_EQ(follow_links(own_, "/").value(), "/");
}

TEST_F(GuardTest, APolicyThatOthersCouldWriteIsNotBelievedAndIsReplaced) {
  const std::string rules = R"({"version": 1, "rules": [{"path": "/notes", "operation": "write", "effect": "deny"}]})";
  using Forge = std::function<bool()>;
  Forge forge_link = [&] { return make_symlink(own_, "../own", kActivePolicy).ok(); };
  Forge forge_name = [&] {
    return write_file(own_, kActivePolicy, as_bytes(R"({"version": 1})")).ok() &&
           link(own_, kActivePolicy, "/second").ok();
  };
  Forge forge_directory = [&] {
    return remove_dir(own_, "/policy").ok() && make_symlink(own_, "state", "/policy").ok();
  };
  for (const Forge& forge : {forge_link, forge_name, forge_directory}) {
    for (const char* name : {"/policy/active.json", "/policy/history.json"}) unlink(own_, name).ignore("may be absent");
    ASSERT_TRUE(write_file(own_, "/own", as_bytes(R"({"version": 1})")).ok());
    ASSERT_TRUE(forge());
    EXPECT_EQ(code(write_file(*user_, "/notes", as_bytes("x"))), Code::kCorrupt);
    set_policy(rules);
    EXPECT_EQ(code(write_file(*user_, "/notes", as_bytes("x"))), Code::kDenied);
    EXPECT_EQ(read_file(own_, "/own").value(), R"({"version": 1})");
    EXPECT_TRUE(lstat(own_, "/policy")->is_directory());
  }
}

TEST_F(GuardTest, APolicyTakesEffectAtOnceAlsoForAnOpenFile) {
  ASSERT_TRUE(write_file(*user_, "/notes", as_bytes("x")).ok());
  Inode notes = stat(*user_, "/notes")->inode;
  ASSERT_TRUE(user_->open(notes).ok());
  set_policy(R"({"version": 1, "rules": [
      {"path": "/notes", "operation": "write", "effect": "deny", "reason": "frozen until Monday"}]})");
  Status refused = user_->write(notes, 0, as_bytes("y"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(),
            "overwrite '/notes' is denied by rule 1 of the policy (line 2): frozen until Monday");
  set_policy(R"({"version": 1})");
  EXPECT_TRUE(user_->write(notes, 0, as_bytes("y")).ok());
  user_->release(notes);
}

TEST_F(GuardTest, AnInvalidPolicyDoesNotReplaceTheOneInForce) {
  set_policy(R"({"version": 1, "rules": [{"path": "/notes", "operation": "write", "effect": "deny"}]})");
  EXPECT_EQ(code(write_file(*user_, "/notes", as_bytes("x"))), Code::kDenied);
  clock_.advance_ns(1'000);
  ASSERT_TRUE(write_file(own_, kActivePolicy, as_bytes("{ not json")).ok());  // by a door without checks
  EXPECT_EQ(code(write_file(*user_, "/notes", as_bytes("x"))), Code::kDenied);
  EXPECT_TRUE(write_file(*user_, "/other", as_bytes("x")).ok());
  LivePolicy fresh(own_);  // a process that starts now
  EXPECT_EQ(code(fresh.current()), Code::kCorrupt);
}

TEST_F(GuardTest, S2_1_OnlyThePolicyCommandsChangeActiveAndHistory) {
  set_policy(R"({"version": 1})");
  EXPECT_EQ(code(write_file(*kernel_, kActivePolicy, as_bytes("{}"))), Code::kDenied);
  EXPECT_EQ(code(unlink(*kernel_, kActivePolicy)), Code::kDenied);
  ASSERT_TRUE(write_file(*kernel_, "/policy/x", as_bytes("{}")).ok());
  EXPECT_EQ(code(rename(*kernel_, "/policy/x", kActivePolicy)), Code::kDenied);
  EXPECT_THAT(read_file(*user_, kPolicyHistory).value(), HasSubstr("\"by\": \"test\""));
}

TEST_F(GuardTest, LimitsOfAPolicyHold) {
  set_policy(R"({"version": 1, "limits": {"file_bytes": 4, "changes_per_second": 100}})");
  EXPECT_TRUE(write_file(*user_, "/a", as_bytes("1234")).ok());
  EXPECT_EQ(code(write_file(*user_, "/b", as_bytes("12345"))), Code::kTooLarge);
  EXPECT_EQ(code(append_file(*user_, "/a", as_bytes("5"))), Code::kTooLarge);
  EXPECT_EQ(code(truncate(*user_, "/a", 5)), Code::kTooLarge);
  EXPECT_EQ(read_file(own_, "/a").value(), "1234");
  Code last{};
  for (int i = 0; i < 200 && last == Code{}; ++i) last = code(write_file(*user_, "/a", as_bytes("1")));
  EXPECT_EQ(last, Code::kBusy);
  clock_.advance_ns(1'000'000'000);
  EXPECT_TRUE(write_file(*user_, "/a", as_bytes("1")).ok());
}

// A filesystem whose changes ask another process.
class FarFs final : public ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;
  Status write(Inode node, std::uint64_t offset, Bytes data) override {
    if (NoWait::forbids_waiting()) return Error(Code::kBusy, "must not wait");
    return ForwardingFs::write(node, offset, data);
  }
};

TEST_F(GuardTest, AChangeThatIsRepeatedBecauseItMustWaitCountsOnce) {
  set_policy(R"({"version": 1, "limits": {"changes_per_second": 2}})");
  ASSERT_TRUE(write_file(own_, "/f", as_bytes("old")).ok());
  FarFs far(own_);
  LivePolicy policy(own_);
  GuardFs guarded(far, policy, {.agent = "a1", .space = Space::kUser, .door = "test", .session = {}}, clock_);
  Inode node = guarded.lookup(kRootInode, "f").value().inode;
  for (int i = 0; i < 2; ++i) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      NoWait no_wait;
      EXPECT_EQ(code(guarded.write(node, 0, as_bytes("new"))), Code::kBusy);
    }
    EXPECT_TRUE(guarded.write(node, 0, as_bytes("new")).ok());
  }
  Status refused = guarded.write(node, 0, as_bytes("new"));
  ASSERT_EQ(code(refused), Code::kBusy);
  EXPECT_THAT(refused.error().message(), HasSubstr("2 changes a second"));
}

TEST_F(GuardTest, PathsOfTheNamespaceAreRelativeOrAbsolute) {
  EXPECT_EQ(space_->resolve("/agent/a1/mem/working/x").value(), "/mem/working/x");
  EXPECT_EQ(space_->resolve("mem/working/x").value(), "/mem/working/x");
  EXPECT_EQ(space_->resolve("/agent/a1").value(), "/");
  EXPECT_EQ(space_->resolve("/../../mem").value(), "/mem");
  EXPECT_EQ(code(space_->resolve("/agent/a2/mem/working/x")), Code::kDenied);
  EXPECT_EQ(code(space_->resolve("/mem/../agent/a2/x")), Code::kDenied);
  EXPECT_EQ(space_->resolve("/agents/a2").value(), "/agents/a2");
}

}  // namespace
}  // namespace warren
