#include "agent/checkpoints/mounted_state.h"

#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/agent_namespace.h"
#include "agent/checkpoints/checkpoints.h"
#include "backends/blob/memory_blobs.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A store in memory that counts what is asked of it, and fails when told to.
class CountedBlobs final : public BlobStore {
 public:
  explicit CountedBlobs(Clock& clock) : store_(clock) {}

  std::string name() const override { return "counted"; }
  BlobAbilities abilities() const override {
    BlobAbilities can = store_.abilities();
    can.ttl = has_ttl;
    return can;
  }
  Result<std::optional<Blob>> get(std::string_view key) override {
    std::lock_guard lock(mutex_);
    ++gets;
    if (is_gone || gets > gets_max) return gone();
    return store_.get(key);
  }
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override {
    return store_.get_range(key, offset, length);
  }
  Result<std::optional<BlobInfo>> find(std::string_view key) override { return store_.find(key); }
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override {
    std::lock_guard lock(mutex_);
    ++puts;
    if (is_gone || puts > puts_max) return gone();
    return store_.put(key, content, options);
  }
  Result<bool> remove(std::string_view key) override {
    std::lock_guard lock(mutex_);
    if (is_gone) return gone();
    return store_.remove(key);
  }
  Result<BlobPage> list(const ListOptions& options) override {
    if (cannot_list) return Error(Code::kUnsupported, "this store cannot list");
    if (is_gone) return gone();
    return store_.list(options);
  }
  Status apply(std::span<const BlobChange> changes) override { return store_.apply(changes); }

  void set(std::string_view key, std::string_view text, const PutOptions& options = {}) {
    EXPECT_OK(store_.put(key, as_bytes(text), options));
  }
  std::string text(std::string_view key) {
    std::optional<Blob> blob = store_.get(key).value();
    return blob ? blob->content : "<none>";
  }

  bool is_gone = false;
  bool cannot_list = false;
  bool has_ttl = true;
  int gets = 0;
  int gets_max = 1'000'000;
  int puts = 0;
  int puts_max = 1'000'000;

 private:
  static Error gone() { return {Code::kUnavailable, "the store does not answer"}; }

  MemoryBlobs store_;
  std::mutex mutex_;
};

class MountedStateTest : public ::testing::Test {
 protected:
  MountedStateTest() {
    Store::open(path_, {.mode = OpenMode::kCreate}, clock_).take_value();
    agent_ = Agent::open({.id_or_path = path_, .durability = Durability::kProcess}, clock_).take_value();
    state_ = new_state();
  }
  std::unique_ptr<MountedState> new_state() {
    auto state = std::make_unique<MountedState>(*agent_, clock_);
    state->add("/mem/notes", store_, nullptr, "notes");
    state->set_working(working_, "working");
    return state;
  }
  void tick() { clock_.advance_ns(1'000'000); }
  std::int64_t take(MountedState* state) {
    tick();
    auto made = take_checkpoint(*agent_, "c", "asked", state);
    EXPECT_OK(made);
    return made.ok() ? made->id : 0;
  }
  std::int64_t take() { return take(state_.get()); }
  void write(std::string_view path, std::string_view text) {
    tick();
    ASSERT_OK(write_file(working_, path, as_bytes(text)));
  }
  std::string working(std::string_view path) {
    Result<std::string> text = read_file(working_, path);
    return text.ok() ? *text : "<none>";
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string path_ = dir_.file("planner.db");
  std::unique_ptr<Agent> agent_;
  CountedBlobs store_{clock_};
  MemoryFs working_{clock_};
  std::unique_ptr<MountedState> state_;
};

TEST_F(MountedStateTest, ARestoreMakesStoresAndWorkingMemoryWhatTheyWere) {
  store_.set("a", "one");
  store_.set("dir/b", "two");
  write("/plan", "first");
  std::int64_t id = take();
  store_.set("a", "changed");
  store_.set("new", "x");
  ASSERT_OK(store_.remove("dir/b"));
  write("/plan", "second");
  write("/more", "y");
  auto before = restore_checkpoint(*agent_, id, state_.get());
  ASSERT_OK(before);
  EXPECT_EQ(store_.text("a"), "one");
  EXPECT_EQ(store_.text("dir/b"), "two");
  EXPECT_EQ(store_.text("new"), "<none>");
  EXPECT_EQ(working("/plan"), "first");
  EXPECT_EQ(working("/more"), "<none>");
  ASSERT_OK(restore_checkpoint(*agent_, before->id, state_.get()));  // undo
  EXPECT_EQ(store_.text("a"), "changed");
  EXPECT_EQ(store_.text("dir/b"), "<none>");
  EXPECT_EQ(store_.text("new"), "x");
  EXPECT_EQ(working("/plan"), "second");
  EXPECT_EQ(working("/more"), "y");
}

TEST_F(MountedStateTest, OnlyWhatHasChangedIsFetchedAndPut) {
  for (int i = 0; i < 50; ++i) store_.set("k" + std::to_string(i), "value");
  std::int64_t id = take();
  EXPECT_EQ(store_.gets, 50);
  store_.set("k7", "other");
  take();
  EXPECT_EQ(store_.gets, 51);
  auto fresh = new_state();  // another process
  take(fresh.get());
  EXPECT_EQ(store_.gets, 51);
  ASSERT_OK(restore_checkpoint(*agent_, id, fresh.get()));
  EXPECT_EQ(store_.puts, 1);
  EXPECT_EQ(store_.text("k7"), "value");
  take();
  EXPECT_EQ(store_.gets, 51);  // what was put is known
  Store& store = agent_->store();
  auto view = store.fs().begin(UnitAccess::kRead).take_value();
  auto rows = store.database().prepare("SELECT count(*) FROM wr_past_mounted WHERE key > ''").take_value();
  EXPECT_EQ(rows.find_integer().value(), 52);  // 50, the other value, and the first one again
}

TEST_F(MountedStateTest, WhatWasFetchedAgainAndIsTheSameIsNoChange) {
  store_.set("a", "one");
  write("/plan", "one");
  take();
  EXPECT_FALSE(has_changed_since_checkpoint(*agent_).value());
  store_.set("a", "one");  // a new version
  MountedState::Copied copied = state_->copy_in().value();
  EXPECT_FALSE(copied.has_changed);
  EXPECT_EQ(store_.gets, 2);
  EXPECT_FALSE(has_changed_since_checkpoint(*agent_).value());
  write("/plan", "two");
  EXPECT_TRUE(state_->copy_in()->has_changed);
  EXPECT_TRUE(has_changed_since_checkpoint(*agent_).value());
  take();
  EXPECT_FALSE(has_changed_since_checkpoint(*agent_).value());
}

TEST_F(MountedStateTest, AnotherStoreAtTheSamePathIsNotTakenForTheFirst) {
  store_.set("a", "one");
  std::int64_t id = take();
  CountedBlobs other(clock_);
  other.set("a", "two");  // the same version and size
  MountedState state(*agent_, clock_);
  state.add("/mem/notes", other, nullptr, "another");
  std::int64_t second = take(&state);
  ASSERT_OK(restore_checkpoint(*agent_, id, &state));
  EXPECT_EQ(other.text("a"), "one");
  ASSERT_OK(restore_checkpoint(*agent_, second, &state));
  EXPECT_EQ(other.text("a"), "two");
}

TEST_F(MountedStateTest, ACheckpointWithoutMountsLeavesThemAlone) {
  store_.set("a", "one");
  take();
  store_.set("a", "two");
  write("/plan", "now");
  std::int64_t without = take(nullptr);
  EXPECT_THAT(list_covered_mounts(*agent_, without).value(), IsEmpty());
  store_.set("a", "three");
  ASSERT_OK(restore_checkpoint(*agent_, without, state_.get()));
  EXPECT_EQ(store_.text("a"), "three");
  EXPECT_EQ(working("/plan"), "now");
  std::int64_t with = take();
  EXPECT_THAT(list_covered_mounts(*agent_, with).value(), ElementsAre("/mem/notes", "/mem/working"));
}

TEST_F(MountedStateTest, AStoreThatDoesNotAnswerMeansNoCheckpointAndNoRestore) {
  store_.set("a", "one");
  ASSERT_OK(write_file(agent_->fs(), "/f", as_bytes("one")));
  std::int64_t id = take();
  ASSERT_OK(write_file(agent_->fs(), "/f", as_bytes("two")));
  store_.is_gone = true;
  auto taken = take_checkpoint(*agent_, "c", "asked", state_.get());
  ASSERT_EQ(error_of(taken), Code::kUnavailable);
  EXPECT_THAT(taken.error().message(), HasSubstr("'/mem/notes'"));
  EXPECT_THAT(taken.error().hint(), HasSubstr("--without-mounts"));
  EXPECT_EQ(error_of(restore_checkpoint(*agent_, id, state_.get())), Code::kUnavailable);
  EXPECT_EQ(list_checkpoints(*agent_)->size(), 1U);
  EXPECT_EQ(read_file(agent_->fs(), "/f").value(), "two");
  ASSERT_OK(restore_checkpoint(*agent_, id));  // without mounts
  EXPECT_EQ(read_file(agent_->fs(), "/f").value(), "one");
}

TEST_F(MountedStateTest, AnAutomaticCheckpointLeavesOutWhatDoesNotAnswerForAMinute) {
  store_.set("a", "one");
  store_.is_gone = true;
  std::vector<std::string> problems;
  AutomaticCheckpoint what{.name = "auto", .cause = "signal", .mounted = state_.get(), .problems = &problems};
  auto first = take_automatic_checkpoint(*agent_, what);
  ASSERT_OK(first);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("does not answer")));
  EXPECT_THAT(list_covered_mounts(*agent_, first->id).value(), ElementsAre("/mem/working"));
  store_.is_gone = false;
  auto soon = take_automatic_checkpoint(*agent_, what);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("a moment ago")));
  EXPECT_THAT(list_covered_mounts(*agent_, soon->id).value(), ElementsAre("/mem/working"));
  clock_.advance_ns(61'000'000'000);
  auto later = take_automatic_checkpoint(*agent_, what);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(list_covered_mounts(*agent_, later->id).value(), ElementsAre("/mem/notes", "/mem/working"));
}

TEST_F(MountedStateTest, ARestoreThatFailsHalfwayIsFinishedByRepeatingIt) {
  for (int i = 0; i < 20; ++i) store_.set("k" + std::to_string(i), "old");
  std::int64_t id = take();
  for (int i = 0; i < 20; ++i) store_.set("k" + std::to_string(i), "new");
  store_.puts = 0;
  store_.puts_max = 7;
  auto failed = restore_checkpoint(*agent_, id, state_.get());
  ASSERT_EQ(error_of(failed), Code::kUnavailable);
  EXPECT_THAT(failed.error().message(), HasSubstr("restore '/mem/notes'"));
  EXPECT_THAT(failed.error().hint(), HasSubstr("repeat the restore"));
  std::int64_t undo = list_checkpoints(*agent_)->back().id;
  store_.puts_max = 1'000'000;
  ASSERT_OK(restore_checkpoint(*agent_, id, state_.get()));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(store_.text("k" + std::to_string(i)), "old");
  ASSERT_OK(restore_checkpoint(*agent_, undo, state_.get()));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(store_.text("k" + std::to_string(i)), "new");
}

TEST_F(MountedStateTest, ACopyThatFailsHalfwayChangesNoCheckpoint) {
  for (int i = 0; i < 20; ++i) store_.set("k" + std::to_string(i), "old");
  std::int64_t id = take();
  for (int i = 0; i < 20; ++i) store_.set("k" + std::to_string(i), "new");
  store_.gets_max = store_.gets + 5;
  EXPECT_EQ(error_of(take_checkpoint(*agent_, "c", "asked", state_.get())), Code::kUnavailable);
  store_.gets_max = 1'000'000;
  ASSERT_OK(restore_checkpoint(*agent_, id, state_.get()));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(store_.text("k" + std::to_string(i)), "old");
}

TEST_F(MountedStateTest, ExpiryIsKeptAndWhatHasExpiredStaysAway) {
  store_.set("long", "x", {.ttl = std::chrono::hours(1)});
  store_.set("short", "y", {.ttl = std::chrono::seconds(10)});
  std::int64_t id = take();
  ASSERT_OK(store_.remove("long"));
  clock_.advance_ns(20'000'000'000);
  ASSERT_OK(restore_checkpoint(*agent_, id, state_.get()));
  EXPECT_EQ(store_.text("long"), "x");
  EXPECT_EQ(store_.text("short"), "<none>");
  clock_.advance_ns(std::int64_t{3600} * 1'000'000'000);
  EXPECT_EQ(store_.text("long"), "<none>");
}

TEST_F(MountedStateTest, WorkingMemoryKeepsLinksModesAttributesAndEmptyDirectories) {
  ASSERT_OK(make_dirs(working_, "/a/empty", {.mode = 0700}));
  write("/a/tool", "#!/bin/sh");
  ASSERT_OK(set_mode(working_, "/a/tool", 0755));
  ASSERT_OK(make_symlink(working_, "tool", "/a/link"));
  ASSERT_OK(set_xattr(working_, "/a/tool", "user.tag", as_bytes(std::string_view("v\0w", 3))));
  Timestamp written = lstat(working_, "/a/tool")->mtime;
  std::int64_t id = take();
  ASSERT_OK(remove(working_, "/a", {.recursive = Recursive::kYes}));
  write("/a", "a file now");
  ASSERT_OK(restore_checkpoint(*agent_, id, state_.get()));
  EXPECT_EQ(read_file(working_, "/a/link").value(), "#!/bin/sh");
  EXPECT_EQ(lstat(working_, "/a/tool")->mode & 07777U, 0755U);
  EXPECT_EQ(lstat(working_, "/a/tool")->mtime, written);
  EXPECT_EQ(lstat(working_, "/a/empty")->mode & 07777U, 0700U);
  EXPECT_EQ(get_xattr(working_, "/a/tool", "user.tag").value(), std::string("v\0w", 3));
}

TEST_F(MountedStateTest, OnePathOfAMountCanBeRestored) {
  store_.set("dir/a", "one");
  store_.set("dir/b", "one");
  store_.set("other", "one");
  write("/plan", "one");
  write("/rest", "one");
  std::int64_t id = take();
  for (const char* key : {"dir/a", "dir/b", "other", "dir/new"}) store_.set(key, "two");
  write("/plan", "two");
  write("/rest", "two");
  ASSERT_OK(restore_paths(*agent_, id, {"/mem/notes/dir", "/mem/working/plan"}, clock_, state_.get()));
  EXPECT_EQ(store_.text("dir/a"), "one");
  EXPECT_EQ(store_.text("dir/b"), "one");
  EXPECT_EQ(store_.text("dir/new"), "<none>");
  EXPECT_EQ(store_.text("other"), "two");
  EXPECT_EQ(working("/plan"), "one");
  EXPECT_EQ(working("/rest"), "two");
  EXPECT_EQ(error_of(restore_paths(*agent_, id, {"/mem/notes/none"}, clock_, state_.get())), Code::kNotFound);
  std::int64_t without = take(nullptr);
  EXPECT_EQ(error_of(restore_paths(*agent_, without, {"/mem/notes/other"}, clock_, state_.get())), Code::kNotFound);
}

TEST_F(MountedStateTest, AStoreThatCannotListIsLeftOut) {
  store_.set("a", "one");
  store_.cannot_list = true;
  std::int64_t id = take();
  EXPECT_THAT(list_covered_mounts(*agent_, id).value(), ElementsAre("/mem/working"));
}

TEST_F(MountedStateTest, TooMuchIsRefusedAndNamesTheMount) {
  ASSERT_OK(make_node(working_, "/huge", {.mode = S_IFREG | 0644}));
  ASSERT_OK(truncate(working_, "/huge", kMountedBytes + 1));
  auto taken = take_checkpoint(*agent_, "c", "asked", state_.get());
  ASSERT_EQ(error_of(taken), Code::kTooLarge);
  EXPECT_THAT(taken.error().message(), HasSubstr("'/mem/working'"));
  EXPECT_THAT(taken.error().hint(), HasSubstr("--without-mounts"));
}

TEST_F(MountedStateTest, ADamagedCopyIsNeverPutBack) {
  store_.set("a", "one");
  write("/plan", "one");
  std::int64_t id = take();
  store_.set("a", "two");
  take();
  {
    Store& store = agent_->store();
    auto change = store.begin_write().take_value();
    ASSERT_OK(store.database().execute("UPDATE wr_past_mounted SET value = x'00' WHERE since = 1"));
    ASSERT_OK(change.commit());
  }
  EXPECT_EQ(error_of(restore_checkpoint(*agent_, id, state_.get())), Code::kCorrupt);
  EXPECT_EQ(store_.text("a"), "two");
}

TEST_F(MountedStateTest, ANamespaceCoversWhatIsMountedInItAndItsWorkingMemory) {
  auto names = AgentNamespace::open(*agent_, {.stores = {{"/mem/notes", store_}}}, clock_).take_value();
  auto view = (*names)->view({.agent = "planner", .space = Space::kKernel, .door = "test", .session = {}});
  ASSERT_OK(write_file(*view, "/mem/notes/day", as_bytes("one")));
  ASSERT_OK(write_file(*view, "/mem/working/plan", as_bytes("one")));
  tick();
  ASSERT_OK(write_file(*view, "/state/checkpoints/first", {}));
  ASSERT_OK(names->sync_mounts());
  std::int64_t id = get_checkpoint(*agent_, "first")->id;
  EXPECT_THAT(list_covered_mounts(*agent_, id).value(), ElementsAre("/mem/notes", "/mem/working"));
  tick();
  ASSERT_OK(write_file(*view, "/mem/notes/day", as_bytes("two")));
  ASSERT_OK(write_file(*view, "/mem/working/plan", as_bytes("two")));
  ASSERT_OK(restore_checkpoint(*agent_, id, &names->mounted()));
  EXPECT_EQ(read_file(*view, "/mem/notes/day").value(), "one");
  EXPECT_EQ(read_file(*view, "/mem/working/plan").value(), "one");
  store_.is_gone = true;
  Status refused = write_file(*view, "/state/checkpoints/second", {});
  if (refused.ok()) refused = names->sync_mounts();
  EXPECT_EQ(error_of(refused), Code::kUnavailable);
  EXPECT_EQ(error_of(get_checkpoint(*agent_, "second")), Code::kNotFound);
}

// Whatever is done in between, each checkpoint brings back what there was.
TEST_F(MountedStateTest, RandomChangesAgainstFullCopies) {
  struct Copy {
    std::map<std::string, std::string> values;
    std::map<std::string, std::string> files;
  };
  std::mt19937 random(7);
  auto below = [&](unsigned limit) { return random() % limit; };
  Copy now;
  std::map<std::int64_t, Copy> copies;
  auto check = [&](const Copy& wanted) -> void {
    BlobPage page = store_.list({.limit = 1000}).value();
    ASSERT_EQ(page.blobs.size(), wanted.values.size());
    for (const auto& [key, text] : wanted.values) ASSERT_EQ(store_.text(key), text) << key;
    ASSERT_EQ(read_dir(working_, "/")->size(), wanted.files.size());
    for (const auto& [path, text] : wanted.files) ASSERT_EQ(working(path), text) << path;
  };
  for (int step = 0; step < 400; ++step) {
    std::string name = "k" + std::to_string(below(12));
    std::string text = std::to_string(random());
    tick();
    switch (below(6)) {
      case 0:
        store_.set(name, text);
        now.values[name] = text;
        break;
      case 1:
        ASSERT_OK(store_.remove(name));
        now.values.erase(name);
        break;
      case 2:
        write("/" + name, text);
        now.files["/" + name] = text;
        break;
      case 3: {
        if (now.files.erase("/" + name) == 0) break;
        ASSERT_OK(unlink(working_, "/" + name));
        break;
      }
      case 4: copies[take()] = now; break;
      default: {
        if (copies.empty()) break;
        if (below(3) == 0) state_ = new_state();
        auto chosen = std::next(copies.begin(), below(static_cast<unsigned>(copies.size())));
        auto before = restore_checkpoint(*agent_, chosen->first, state_.get());
        ASSERT_OK(before);
        copies[before->id] = now;
        now = chosen->second;
        check(now);
      }
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(copies.size(), 50U);
}

// Two processes that show different stores at the same path.
TEST_F(MountedStateTest, CheckpointsOfSeveralProcessesAtOnceAreNeverMixed) {
  auto work = [&](const std::string& letter) {
    auto agent = Agent::open({.id_or_path = path_, .durability = Durability::kProcess}, clock_).take_value();
    CountedBlobs store(clock_);
    for (int i = 0; i < 10; ++i) store.set("k" + std::to_string(i), letter);
    MountedState state(*agent, clock_);
    state.add("/mem/notes", store, nullptr, letter);
    for (int i = 0; i < 15; ++i) {
      auto made = take_checkpoint(*agent, letter, "asked", &state);
      EXPECT_TRUE(made.ok() || made.error().code() == Code::kConflict) << made.error().message();
    }
  };
  std::thread other(work, "a");
  work("b");
  other.join();
  std::vector<Checkpoint> all = list_checkpoints(*agent_).value();
  EXPECT_GT(all.size(), 10U);
  for (const Checkpoint& one : all) {
    auto past = open_checkpoint(*agent_, one.id, clock_).take_value();
    auto view = past->store().fs().begin(UnitAccess::kRead).take_value();
    MountedRows rows(past->store());
    ASSERT_EQ(rows.list("/mem/notes")->size(), 10U);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(rows.find_value("/mem/notes", "k" + std::to_string(i)).value(), one.name) << one.id;
    }
  }
}

TEST_F(MountedStateTest, OnlyAStoreOnWorkingMemoryItselfReplacesIt) {
  auto paths = [&](const std::string& path) {
    MountSpec mount{.path = path, .backend = "memory:", .password_env = {}, .directory = {}};
    return MountedState::open(*agent_, {mount}, clock_).value()->paths();
  };
  ::setenv("XDG_RUNTIME_DIR", dir_.path().c_str(), 1);
  EXPECT_THAT(paths("/mem"), ElementsAre("/mem", "/mem/working"));
  EXPECT_THAT(paths("/mem/working"), ElementsAre("/mem/working"));
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(MountedStateTest, ACommandsWorkingMemoryIsMadeWhenARestoreNeedsIt) {
  ::setenv("XDG_RUNTIME_DIR", dir_.path().c_str(), 1);
  write("/plan", "one");
  std::int64_t id = take();
  auto command = MountedState::open(*agent_, {}, clock_).take_value();
  ASSERT_OK(restore_checkpoint(*agent_, id, command.get()));
  auto next = MountedState::open(*agent_, {}, clock_).take_value();
  std::int64_t same = take(next.get());
  EXPECT_THAT(list_covered_mounts(*agent_, same).value(), ElementsAre("/mem/working"));
  auto names = AgentNamespace::open(*agent_, {.working = WorkingMemory::kRuntimeFolder}, clock_).take_value();
  auto view = (*names)->view({.agent = "planner", .space = Space::kKernel, .door = "test", .session = {}});
  EXPECT_EQ(read_file(*view, "/mem/working/plan").value(), "one");
  ::unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace warren
