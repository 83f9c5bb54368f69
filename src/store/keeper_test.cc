#include "store/keeper.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "db/transaction.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

constexpr std::chrono::seconds kPatience{20};

// Keeps what it is told, and waits for it.
class Ear final : public ChangeListener {
 public:
  void entry_changed(Inode, std::string_view name) override { hear(std::string(name)); }
  void node_changed(Inode) override {}
  void everything_changed() override { hear("*"); }

  bool hears(const std::string& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return heard_.contains(what); });
  }
  bool has_heard(const std::string& what) {
    std::lock_guard guard(mutex_);
    return heard_.contains(what);
  }
  void forget() {
    std::lock_guard guard(mutex_);
    heard_.clear();
  }

 private:
  void hear(std::string what) {
    std::lock_guard guard(mutex_);
    heard_.insert(std::move(what));
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> heard_;
};

// A store as a mount opens it, another of ours, and a program that only knows SQLite.
class KeeperTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(mounted_->listen(Tree::kFiles, &ear_)); }
  void TearDown() override { ASSERT_OK(mounted_->listen(Tree::kFiles, nullptr)); }

  std::unique_ptr<Store> open(OpenMode mode, Commits commits) {
    return Store::open(dir_.file("a.db"), {.mode = mode, .durability = Durability::kProcess, .commits = commits},
                       clock_)
        .value();
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  Ear ear_;
  std::unique_ptr<Store> ours_ = open(OpenMode::kCreate, Commits::kEach);
  std::unique_ptr<Store> mounted_ = open(OpenMode::kReadWrite, Commits::kGrouped);
  std::unique_ptr<Database> foreign_ = Database::open(dir_.file("a.db"), {}).value();
};

TEST_F(KeeperTest, OurOwnProgramsReportWhatTheyChanged) {
  for (int i = 0; i < 20; ++i) {
    std::string name = "f" + std::to_string(i);
    ASSERT_OK(write_file(ours_->fs(), "/" + name, as_bytes("x")));
    ASSERT_OK(write_file(mounted_->fs(), "/own" + name, as_bytes("x")));
    EXPECT_TRUE(ear_.hears(name));
  }
  EXPECT_FALSE(ear_.has_heard("*")) << "everything we did is in the journal";
  EXPECT_FALSE(ear_.has_heard("ownf1"));
}

TEST_F(KeeperTest, AForeignChangeIsNoticedAlsoBesideOneOfOurs) {
  for (int i = 0; i < 10; ++i) {
    ear_.forget();
    std::string name = "f" + std::to_string(i);
    {
      auto no_look = mounted_->database().lock();
      ASSERT_OK(foreign_->execute("UPDATE fs_inode SET uid = uid + 1 WHERE ino = 1"));
      ASSERT_OK(write_file(ours_->fs(), "/" + name, as_bytes("x")));
    }
    EXPECT_TRUE(ear_.hears(name));
    EXPECT_TRUE(ear_.hears("*"));
  }
}

TEST_F(KeeperTest, ARowThatCannotBeDecodedMeansEverythingAndDoesNotHoldUpTheNext) {
  ASSERT_OK(foreign_->execute("INSERT INTO wr_journal (at_us, origin, changes) VALUES (1, 1, x'ff')"));
  EXPECT_TRUE(ear_.hears("*"));
  ASSERT_OK(write_file(ours_->fs(), "/later", as_bytes("x")));
  EXPECT_TRUE(ear_.hears("later"));
}

TEST_F(KeeperTest, ALookThatFailedIsTriedAgainAndForgetsNothing) {
  ear_.forget();
  testing::TempDir dir;
  auto store = Store::open(dir.file("b.db"), {.mode = OpenMode::kCreate}, clock_).value();
  auto database = Database::open(dir.file("b.db"), {.commits = Commits::kGrouped}).value();
  auto journal = Journal::open(*database, store->schema(), clock_).value();
  auto keeper = Keeper::start(*database, *journal, []() -> Result<bool> { return false; }).value();
  keeper->listen(Tree::kFiles, &ear_);
  auto rename = [&](Sql sql) {
    Transaction scope = Transaction::begin(*database, Access::kWrite).value();
    ASSERT_OK(database->execute(sql));
    ASSERT_OK(scope.commit());
  };
  rename("ALTER TABLE wr_journal RENAME TO away");
  keeper->everything_changed();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it looks, and fails
  EXPECT_FALSE(ear_.has_heard("*"));
  rename("ALTER TABLE away RENAME TO wr_journal");
  EXPECT_TRUE(ear_.hears("*"));
}

TEST_F(KeeperTest, WorkThatFailedIsTriedAgain) {
  testing::TempDir dir;
  auto store = Store::open(dir.file("b.db"), {.mode = OpenMode::kCreate}, clock_).value();
  auto database = Database::open(dir.file("b.db"), {.commits = Commits::kGrouped}).value();
  auto journal = Journal::open(*database, store->schema(), clock_).value();
  std::atomic<int> calls = 0;
  auto work = [&]() -> Result<bool> {
    if (++calls == 1) return Error(Code::kBusy, "another process is writing");
    return false;
  };
  auto keeper = Keeper::start(*database, *journal, work).value();
  keeper->has_work();
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (calls < 2 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace warren
