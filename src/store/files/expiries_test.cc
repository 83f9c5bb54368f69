#include "store/files/expiries.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "fs/expiry.h"
#include "fs/file.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using std::chrono::seconds;
using testing::error_of;

TEST(Expiry, ATimeIsUnixSecondsWithAnOptionalFraction) {
  EXPECT_EQ(*parse_expiry("1789000000"), 1'789'000'000'000);
  EXPECT_EQ(*parse_expiry("1789000000.25"), 1'789'000'000'250);
  EXPECT_EQ(*parse_expiry("0.0019"), 1);
  EXPECT_EQ(format_expiry(1'789'000'000'025), "1789000000.025");
  for (const char* bad : {"", ".", "1.", ".5", "-1", "+1", "1e9", " 1", "soon", "9999999999999999", "1.2.3"}) {
    EXPECT_EQ(error_of(parse_expiry(bad)), Code::kInvalid) << bad;
  }
}

TEST(Expiry, ATimeToLiveBeyondTheLastTimeIsTheLastTime) {
  testing::FakeClock clock;
  EXPECT_EQ(*expiry_after(clock, seconds(1)), 1'700'000'001'000);
  std::int64_t last = *expiry_after(clock, std::chrono::milliseconds::max());
  EXPECT_EQ(*parse_expiry(format_expiry(last)), last);
  EXPECT_EQ(error_of(expiry_after(clock, seconds(0))), Code::kInvalid);
}

// The same for an agent file and for memory.
class ExpiringFiles : public ::testing::TestWithParam<const char*> {
 protected:
  ExpiringFiles() {
    if (std::string_view(GetParam()) == "memory") memory_ = std::make_unique<MemoryFs>(clock_);
    else store_ = Store::open(dir_.file("a.db"), {.mode = OpenMode::kCreate, .commits = commits()}, clock_).value();
  }
  static Commits commits() { return std::string_view(GetParam()) == "mounted" ? Commits::kGrouped : Commits::kEach; }
  FileSystem& fs() { return memory_ ? static_cast<FileSystem&>(*memory_) : store_->fs(); }
  void write(std::string_view path, std::optional<seconds> time_to_live = {}) {
    WriteFileOptions options;
    if (time_to_live) options.expires_at_ms = expiry_after(clock_, *time_to_live).value();
    ASSERT_OK(write_file(fs(), path, as_bytes("content"), options));
  }
  void pass(seconds time) { clock_.advance_ns(std::chrono::nanoseconds(time).count()); }
  bool is_there(std::string_view path) { return exists(fs(), path).value(); }
  bool has_expiry(std::string_view path) { return get_xattr(fs(), path, kExpiryXattr).ok(); }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<MemoryFs> memory_;
  std::unique_ptr<Store> store_;
};

TEST_P(ExpiringFiles, AFileIsGoneForEveryCallOnceItsTimeIsOver) {
  write("/d/f", seconds(10));
  write("/d/g");
  pass(seconds(9));
  EXPECT_TRUE(is_there("/d/f"));
  EXPECT_EQ(read_dir(fs(), "/d")->size(), 2U);
  pass(seconds(1));
  EXPECT_FALSE(is_there("/d/f"));
  EXPECT_EQ(*read_dir(fs(), "/d"), std::vector<std::string>{"g"});
  EXPECT_EQ(read_dir_plus(fs(), "/d")->size(), 1U);
  EXPECT_EQ(error_of(read_file(fs(), "/d/f")), Code::kNotFound);
  EXPECT_EQ(error_of(unlink(fs(), "/d/f")), Code::kNotFound);
  EXPECT_EQ(error_of(rename(fs(), "/d/f", "/d/h")), Code::kNotFound);
  EXPECT_EQ(error_of(File::open(fs(), "/d/f")), Code::kNotFound);
  ASSERT_OK(unlink(fs(), "/d/g"));
  ASSERT_OK(remove_dir(fs(), "/d"));
}

TEST_P(ExpiringFiles, AnExpiredNameIsFree) {
  for (const char* name : {"/file", "/dir", "/link", "/renamed", "/hard"}) write(name, seconds(1));
  write("/other");
  pass(seconds(2));
  write("/file");
  ASSERT_OK(make_dir(fs(), "/dir"));
  ASSERT_OK(make_symlink(fs(), "other", "/link"));
  ASSERT_OK(link(fs(), "/other", "/hard"));
  ASSERT_OK(rename(fs(), "/other", "/renamed", RenameMode::kNoReplace));
  EXPECT_FALSE(has_expiry("/file"));
  pass(seconds(100));
  EXPECT_TRUE(is_there("/file") && is_there("/renamed") && is_there("/hard"));
}

TEST_P(ExpiringFiles, ReplacingTheContentDropsTheTimeAndAppendingKeepsIt) {
  write("/replaced", seconds(10));
  write("/appended", seconds(10));
  write("/extended", seconds(10));
  ASSERT_OK(write_file(fs(), "/empty", {}, {.expires_at_ms = *expiry_after(clock_, seconds(10))}));
  write("/replaced");
  write("/empty");
  ASSERT_OK(append_file(fs(), "/appended", as_bytes("more")));
  write("/extended", seconds(30));
  EXPECT_FALSE(has_expiry("/replaced") || has_expiry("/empty"));
  EXPECT_TRUE(has_expiry("/appended"));
  pass(seconds(20));
  EXPECT_EQ(*read_dir(fs(), "/"), (std::vector<std::string>{"empty", "extended", "replaced"}));
}

TEST_P(ExpiringFiles, ARenamedFileKeepsItsTimeAndAllItsNamesGo) {
  write("/a", seconds(10));
  ASSERT_OK(rename(fs(), "/a", "/b"));
  ASSERT_OK(make_dir(fs(), "/d"));
  ASSERT_OK(link(fs(), "/b", "/d/c"));
  EXPECT_TRUE(has_expiry("/d/c"));
  pass(seconds(10));
  write("/later");
  EXPECT_EQ(*read_dir(fs(), "/"), (std::vector<std::string>{"d", "later"}));
  EXPECT_TRUE(read_dir(fs(), "/d")->empty());
  EXPECT_EQ(fs().stats(kRootInode)->used_inodes, 3U);
}

TEST_P(ExpiringFiles, WhoHasItOpenCanReadOn) {
  write("/f", seconds(1));
  auto file = File::open(fs(), "/f").value();
  pass(seconds(2));
  write("/g");
  EXPECT_FALSE(is_there("/f"));
  std::string content(7, ' ');
  EXPECT_EQ(*file->read_at(0, as_mutable_bytes(content)), 7U);
  EXPECT_EQ(content, "content");
  ASSERT_OK(file->close());
}

TEST_P(ExpiringFiles, OnlyRegularFilesExpireAndTheValueIsChecked) {
  write("/f");
  ASSERT_OK(make_dir(fs(), "/d"));
  EXPECT_EQ(error_of(set_xattr(fs(), "/d", kExpiryXattr, as_bytes("1"))), Code::kInvalid);
  EXPECT_EQ(error_of(set_xattr(fs(), "/f", kExpiryXattr, as_bytes("soon"))), Code::kInvalid);
  EXPECT_EQ(error_of(set_xattr(fs(), "/f", kExpiryXattr, as_bytes("1800000000"), XattrMode::kReplace)), Code::kNoData);
  ASSERT_OK(set_xattr(fs(), "/f", kExpiryXattr, as_bytes("1800000000")));
  EXPECT_EQ(error_of(set_xattr(fs(), "/f", kExpiryXattr, as_bytes("1"), XattrMode::kCreate)), Code::kExists);
  EXPECT_EQ(*get_xattr(fs(), "/f", kExpiryXattr), "1800000000.000");
  ASSERT_OK(set_xattr(fs(), "/f", "user.z", as_bytes("z")));
  EXPECT_EQ(*list_xattrs(fs(), "/f"), (std::vector<std::string>{std::string(kExpiryXattr), "user.z"}));
  ASSERT_OK(remove_xattr(fs(), "/f", kExpiryXattr));
  EXPECT_EQ(error_of(remove_xattr(fs(), "/f", kExpiryXattr)), Code::kNoData);
}

TEST_P(ExpiringFiles, TheWallClockDecidesAlsoWhenItIsSet) {
  write("/f", seconds(10));
  clock_.jump_ns(std::chrono::nanoseconds(seconds(60)).count());
  EXPECT_FALSE(is_there("/f"));
  if (commits() == Commits::kGrouped || memory_) return;  // removed by now, perhaps
  clock_.jump_ns(-std::chrono::nanoseconds(seconds(60)).count());
  EXPECT_TRUE(is_there("/f"));  // nobody has removed it meanwhile
}

INSTANTIATE_TEST_SUITE_P(Each, ExpiringFiles, ::testing::Values("memory", "sqlite", "mounted"));

class ExpiringStore : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open(OpenMode mode, Commits commits = Commits::kEach) {
    return Store::open(dir_.file("a.db"), {.mode = mode, .commits = commits}, clock_).value();
  }
  void write(Store& store, std::string_view path, seconds time_to_live) {
    ASSERT_OK(write_file(store.fs(), path, as_bytes("x"), {.expires_at_ms = *expiry_after(clock_, time_to_live)}));
  }
  void pass(seconds time) { clock_.advance_ns(std::chrono::nanoseconds(time).count()); }
  static std::int64_t ask(Store& store, Sql sql) {
    auto view = Transaction::begin(store.database(), Access::kRead).value();
    return store.database().prepare(sql).value().find_integer().value().value_or(0);
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
};

TEST_F(ExpiringStore, AReaderThatMayNotWriteDoesNotSeeItEither) {
  auto store = open(OpenMode::kCreate);
  auto reader = open(OpenMode::kReadOnly);
  write(*store, "/f", seconds(5));
  EXPECT_TRUE(*exists(reader->fs(), "/f"));
  pass(seconds(5));
  EXPECT_FALSE(*exists(reader->fs(), "/f"));
  EXPECT_TRUE(read_dir(reader->fs(), "/")->empty());
  EXPECT_EQ(ask(*reader, "SELECT count(*) FROM fs_dentry"), 1);
}

TEST_F(ExpiringStore, ALaterOpeningRemovesFilesAndKeysAndTheJournalSaysSo) {
  auto store = open(OpenMode::kCreate);
  write(*store, "/f", seconds(5));
  ASSERT_OK(store->kv().set("k", "1", seconds(5)));
  store.reset();
  pass(seconds(5));
  auto again = open(OpenMode::kReadWrite);
  EXPECT_EQ(ask(*again, "SELECT count(*) FROM fs_dentry"), 0);
  EXPECT_EQ(ask(*again, "SELECT count(*) FROM fs_inode"), 1);
  EXPECT_EQ(ask(*again, "SELECT count(*) FROM kv_store"), 0);
  EXPECT_EQ(ask(*again, "SELECT count(*) FROM wr_expiry"), 0);
  auto rows = again->journal()->read_after(0, 100).value().value();
  std::vector<Change> last;
  for (const JournalRow& row : rows) last.insert(last.end(), row.changes.begin(), row.changes.end());
  Change entry{.kind = ChangeKind::kEntry, .id = 1, .name = "f"};
  Change key{.kind = ChangeKind::kKey, .id = 0, .name = "k"};
  EXPECT_EQ(std::count(last.begin(), last.end(), entry), 2);  // made and removed
  EXPECT_EQ(std::count(last.begin(), last.end(), key), 2);
}

TEST_F(ExpiringStore, AnotherProgramsRenameAndRemovalAreNoticed) {
  auto store = open(OpenMode::kCreate);
  write(*store, "/renamed", seconds(5));
  write(*store, "/removed", seconds(5));
  store.reset();
  {
    auto other = Database::open(dir_.file("a.db"), {.mode = OpenMode::kReadWrite}).value();
    ASSERT_OK(
        other->execute("UPDATE fs_dentry SET name = 'new' WHERE name = 'renamed';"
                       "DELETE FROM fs_inode WHERE ino IN (SELECT ino FROM fs_dentry WHERE name = 'removed');"
                       "DELETE FROM fs_dentry WHERE name = 'removed'"));
  }
  store = open(OpenMode::kReadWrite);
  EXPECT_TRUE(*exists(store->fs(), "/new"));
  pass(seconds(5));
  EXPECT_FALSE(*exists(store->fs(), "/new"));
  store.reset();
  store = open(OpenMode::kReadWrite);
  EXPECT_EQ(ask(*store, "SELECT count(*) FROM fs_dentry"), 0);
  EXPECT_EQ(ask(*store, "SELECT count(*) FROM wr_expiry"), 0);
}

TEST_F(ExpiringStore, ARolledBackTimeIsNotSet) {
  auto store = open(OpenMode::kCreate);
  ASSERT_OK(write_file(store->fs(), "/f", as_bytes("x")));
  {
    auto unit = store->fs().begin(UnitAccess::kWrite).value();
    ASSERT_OK(set_xattr(store->fs(), "/f", kExpiryXattr, as_bytes("1")));
    EXPECT_FALSE(*exists(store->fs(), "/f"));
  }
  EXPECT_TRUE(*exists(store->fs(), "/f"));
}

TEST_F(ExpiringStore, ARefusedCallInAUnitDoesNotSpoilTheUnit) {
  auto store = open(OpenMode::kCreate);
  write(*store, "/f", seconds(5));
  pass(seconds(5));
  auto unit = store->fs().begin(UnitAccess::kWrite).value();
  EXPECT_EQ(error_of(unlink(store->fs(), "/f")), Code::kNotFound);
  ASSERT_OK(write_file(store->fs(), "/g", as_bytes("x")));
  ASSERT_OK(unit->commit());
  EXPECT_TRUE(*exists(store->fs(), "/g"));
}

class Listener final : public ChangeListener {
 public:
  void entry_changed(Inode, std::string_view name) override {
    std::lock_guard guard(mutex_);
    heard_.emplace(name);
    changed_.notify_all();
  }
  void node_changed(Inode) override {}
  void everything_changed() override {}
  bool hears(const std::string& name) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [&] { return heard_.contains(name); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> heard_;
};

// A mount's kernel has the name cached, and nobody asks: the time alone makes it be dropped.
TEST_F(ExpiringStore, AMountLearnsThatAFileOfItsOwnHasExpired) {
  SystemClock clock;
  auto store = Store::open(dir_.file("m.db"), {.mode = OpenMode::kCreate, .commits = Commits::kGrouped}, clock).value();
  Listener listener;
  ASSERT_OK(store->listen(Tree::kFiles, &listener));
  ASSERT_OK(write_file(store->fs(), "/f", as_bytes("x"), {.expires_at_ms = clock.now_us() / 1000 + 50}));
  EXPECT_TRUE(listener.hears("f"));
  ASSERT_OK(store->listen(Tree::kFiles, nullptr));
  MemoryFs memory(clock);
  ASSERT_OK(memory.listen(&listener));
  ASSERT_OK(write_file(memory, "/m", as_bytes("x"), {.expires_at_ms = clock.now_us() / 1000 + 50}));
  EXPECT_TRUE(listener.hears("m"));
  ASSERT_OK(memory.listen(nullptr));
}

}  // namespace
}  // namespace warren
