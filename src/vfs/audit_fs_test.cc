#include "vfs/audit_fs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fs/expiry.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/record/audit_check.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "vfs/audit_file_fs.h"
#include "vfs/namespace.h"
#include "vfs/on_record.h"
#include "vfs/values.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

LoadAuditKeys one_key() {
  return []() -> Result<AuditKeys> { return AuditKeys{make_audit_key(std::string(32, 'k'))}; };
}

// The parameter: how the store commits.
class AuditFsTest : public ::testing::TestWithParam<Commits> {
 protected:
  AuditFsTest() {
    StoreOptions options{.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = GetParam()};
    store_ = Store::open(dir_.file("a.db"), options, clock_).take_value();
    EXPECT_OK(store_->audit().enable(one_key()));
    file_ = std::make_unique<AuditFileFs>(store_->fs(), store_->audit(), clock_);
    names_ = Namespace::open(*file_, working_, {.agent = "a1", .audit = &store_->audit()}, clock_).take_value();
    user_ = names_->view({.agent = "a1", .space = Space::kUser, .door = "test", .session = "s", .trace = "t1"});
    kernel_ = names_->view({.agent = "a1", .space = Space::kKernel, .door = "test", .session = {}});
  }

  std::vector<AuditRow> rows() {
    EXPECT_OK(store_->audit().flush());
    EXPECT_OK(store_->database().end_batch());
    std::vector<AuditRow> all;
    for (StoredAuditRow& one : store_->audit().read_after(0, 10'000).take_value()) all.push_back(std::move(one.row));
    return all;
  }
  // What was recorded since the last call.
  std::vector<std::string> news() {
    std::vector<std::string> all;
    for (const AuditRow& row : rows()) {
      if (row.seq <= seen_) continue;
      seen_ = row.seq;
      const AuditEvent& event = row.event;
      std::string text = event.op + " " + event.path;
      if (event.to) text += " -> " + *event.to;
      if (event.size_bytes) text += " " + std::to_string(*event.size_bytes);
      if (!event.ok) text += " " + event.err;
      all.push_back(std::move(text));
    }
    return all;
  }
  std::optional<AuditFault> fault() {
    rows();
    AuditKeys keys = one_key()().take_value();
    return check_audit(store_->audit(), keys, {}).take_value().fault;
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<Store> store_;
  MemoryFs working_{clock_};
  std::unique_ptr<AuditFileFs> file_;
  std::unique_ptr<Namespace> names_;
  std::unique_ptr<NamespaceView> user_;
  std::unique_ptr<NamespaceView> kernel_;
  std::int64_t seen_ = 0;
};

TEST_P(AuditFsTest, WritingAFileIsOneEvent) {
  ASSERT_OK(write_value(*user_, "/state/x.json", "[1, 2]"));
  EXPECT_THAT(news(), ElementsAre("write /state/x.json 6"));
  ASSERT_OK(write_value(*user_, "/state/x.json", "[1]"));
  EXPECT_THAT(news(), ElementsAre("write /state/x.json 3"));
  AuditEvent event = rows().back().event;
  EXPECT_EQ(event.agent, "a1");
  EXPECT_EQ(event.space, "user");
  EXPECT_EQ(event.door, "test");
  EXPECT_EQ(event.session, "s");
  EXPECT_EQ(event.trace, "t1");
}

TEST_P(AuditFsTest, EveryChangeIsAnEvent) {
  ASSERT_OK(make_dir(*user_, "/d"));
  ASSERT_OK(write_file(*user_, "/d/f", as_bytes("hello")));
  ASSERT_OK(append_file(*user_, "/d/f", as_bytes("!")));
  ASSERT_OK(truncate(*user_, "/d/f", 2));
  ASSERT_OK(set_mode(*user_, "/d/f", 0600));
  ASSERT_OK(rename(*user_, "/d/f", "/d/g"));
  ASSERT_OK(link(*user_, "/d/g", "/d/h"));
  ASSERT_OK(make_symlink(*user_, "target", "/d/s"));
  ASSERT_OK(unlink(*user_, "/d/h"));
  ASSERT_OK(copy_file(*user_, "/d/g", "/d/copy"));
  ASSERT_OK(remove(*user_, "/d", {.recursive = Recursive::kYes}));
  std::vector<std::string> all = news();
  EXPECT_THAT(
      all, ::testing::IsSupersetOf({"mkdir /d", "write /d/f 5", "append /d/f 1", "truncate /d/f 2", "attributes /d/f",
                                    "rename /d/f -> /d/g", "link /d/g -> /d/h", "symlink /d/s -> target", "delete /d/h",
                                    "copy /d/g -> /d/copy 2", "delete /d/g", "delete /d"}));
  EXPECT_FALSE(fault());
}

TEST_P(AuditFsTest, ARefusalInADirectoryThatIsOpenIsRecorded) {
  ASSERT_OK(write_file(*file_, "/shut/file", as_bytes("x")));
  Inode dir = stat(*user_, "/shut").take_value().inode;
  std::unique_ptr<DirStream> stream = user_->open_dir(dir).take_value();
  ASSERT_OK(stream->read(0, 10, DirDetail::kNames));
  EXPECT_FALSE(user_->has_refused());
  clock_.advance_ns(1'000);
  std::string policy = R"({"version": 1, "rules": [{"path": "/shut", "operation": "list", "effect": "deny"}]})";
  ASSERT_OK(LivePolicy::replace(*file_, policy, "test", clock_));
  EXPECT_EQ(error_of(stream->read(0, 10, DirDetail::kNames)), Code::kDenied);
  EXPECT_TRUE(user_->has_refused());
  EXPECT_THAT(news(), ElementsAre("list /shut", "list /shut permission_denied"));
}

TEST_P(AuditFsTest, ReadsAndListingsAreEvents) {
  ASSERT_OK(write_file(*user_, "/f", as_bytes("hello")));
  news();
  EXPECT_EQ(read_file(*user_, "/f").take_value(), "hello");
  ASSERT_OK(read_dir(*user_, "/"));
  EXPECT_THAT(news(), ElementsAre("read /f 5", "list /"));
  ASSERT_OK(lstat(*user_, "/f"));
  EXPECT_TRUE(news().empty());
}

TEST_P(AuditFsTest, AnOpenFileIsReadOnce) {
  ASSERT_OK(write_file(*user_, "/f", as_bytes("hello")));
  Inode node = lstat(*user_, "/f").take_value().inode;
  news();
  std::string buffer(2, '\0');
  for (int opened = 0; opened < 2; ++opened) {
    ASSERT_OK(user_->open(node));
    for (std::uint64_t at = 0; at < 5; at += 2) ASSERT_OK(user_->read(node, at, as_mutable_bytes(buffer)));
    user_->release(node);
  }
  EXPECT_THAT(news(), ElementsAre("read /f 5", "read /f 5"));
}

TEST_P(AuditFsTest, InAMountOpeningIsReading) {
  auto mount =
      names_->view({.agent = "a1", .space = Space::kUser, .door = "mount", .session = {}}, AuditReads::kByOpening);
  ASSERT_OK(write_file(*mount, "/f", as_bytes("hello")));
  Inode node = lstat(*mount, "/f").take_value().inode;
  news();
  std::string buffer(5, '\0');
  ASSERT_OK(mount->read(node, 0, as_mutable_bytes(buffer)));
  EXPECT_TRUE(news().empty());
  ASSERT_OK(mount->read(node, 0, {}));
  EXPECT_THAT(news(), ElementsAre("read /f 5"));
}

TEST_P(AuditFsTest, RefusalsAreRecordedAndTheirUnitsAreNot) {
  EXPECT_EQ(error_of(write_file(*user_, "/policy/new/rules", as_bytes("x"))), Code::kDenied);
  EXPECT_EQ(error_of(read_file(*kernel_, "/ipc/inbox")), Code::kDenied);
  EXPECT_EQ(error_of(read_dir(*user_, "/ipc/outbox")), Code::kDenied);
  EXPECT_THAT(news(), ElementsAre("mkdir /policy/new permission_denied", "read /ipc/inbox permission_denied",
                                  "list /ipc/outbox permission_denied"));
  EXPECT_FALSE(fault());
}

TEST_P(AuditFsTest, AUnitThatIsNotCommittedLeavesItsRefusalsAndReads) {
  {
    auto unit = user_->begin(UnitAccess::kWrite).take_value();
    ASSERT_OK(make_dir(*user_, "/kept"));
    EXPECT_EQ(error_of(make_dir(*user_, "/policy/x")), Code::kDenied);
  }
  EXPECT_EQ(error_of(lstat(*user_, "/kept")), Code::kNotFound);
  EXPECT_THAT(news(), ElementsAre("mkdir /kept not_committed", "mkdir /policy/x permission_denied"));
}

TEST_P(AuditFsTest, AFailedChangeIsRecordedWithItsError) {
  ASSERT_OK(make_dir(*user_, "/d"));
  ASSERT_OK(write_file(*user_, "/d/f", as_bytes("x")));
  news();
  EXPECT_EQ(error_of(remove_dir(*user_, "/d")), Code::kNotEmpty);
  EXPECT_THAT(news(), ElementsAre("delete /d not_empty"));
}

TEST_P(AuditFsTest, ChangesInAnotherMountAreRecordedToo) {
  ASSERT_OK(write_value(*user_, "/mem/working/task.json", "{}"));
  EXPECT_EQ(read_file(*user_, "/mem/working/task.json").take_value(), "{}");
  EXPECT_THAT(news(), ElementsAre("write /mem/working/task.json 2", "read /mem/working/task.json 2"));
  Inode node = lstat(*user_, "/mem/working/task.json").take_value().inode;
  ASSERT_OK(user_->append(node, as_bytes("\n")));
  EXPECT_THAT(news(), ElementsAre("append /mem/working/task.json 1"));
}

TEST_P(AuditFsTest, AFileThatExpiresDoesNotMakeAFailedChangeSucceed) {
  ASSERT_OK(make_dir(*user_, "/d"));
  ASSERT_OK(write_file(*user_, "/d/f", as_bytes("x")));
  ASSERT_OK(write_file(*user_, "/d/soon", as_bytes("x")));
  Inode soon = lstat(*user_, "/d/soon").take_value().inode;
  ASSERT_OK(
      user_->set_xattr(soon, kExpiryXattr, as_bytes(format_expiry(clock_.now_us() / 1000 + 10)), XattrMode::kAny));
  news();
  clock_.advance_ns(1'000'000'000);
  EXPECT_EQ(error_of(user_->remove_dir(kRootInode, "d")), Code::kNotEmpty);
  EXPECT_THAT(news(), ElementsAre("expire /d/soon", "delete /d not_empty"));
  EXPECT_FALSE(fault());
}

TEST_P(AuditFsTest, APathInAnotherNamespaceIsRefusedOnTheRecord) {
  EXPECT_EQ(error_of(user_->resolve(*names_, "/agent/b/secret", "read")), Code::kDenied);
  EXPECT_EQ(user_->resolve(*names_, "/agent/a1/x", "read").take_value(), "/x");
  EXPECT_THAT(news(), ElementsAre("read /agent/b/secret permission_denied"));
}

TEST_P(AuditFsTest, AUnitKeepsTheOrderOfWhatItDoesToOneName) {
  {
    auto unit = user_->begin(UnitAccess::kWrite).take_value();
    ASSERT_OK(write_file(*user_, "/a", as_bytes("1")));
    ASSERT_OK(rename(*user_, "/a", "/b"));
    ASSERT_OK(write_file(*user_, "/a", as_bytes("22")));
    ASSERT_OK(unit->commit());
  }
  EXPECT_THAT(news(), ElementsAre("write /a 1", "rename /a -> /b", "write /a 2"));
}

TEST_P(AuditFsTest, ATraceScopeNamesTheTrace) {
  TraceScope scope("request-7");
  ASSERT_OK(make_dir(*user_, "/d"));
  EXPECT_EQ(rows().back().event.trace, "request-7");
}

TEST_P(AuditFsTest, TheTrailIsAFileThatGrows) {
  ASSERT_OK(write_file(*user_, "/f", as_bytes("hello")));
  rows();
  EXPECT_THAT(read_dir(*user_, "/audit").take_value(), ElementsAre("events.jsonl"));
  std::string first = read_file(*user_, "/audit/events.jsonl").take_value();
  EXPECT_THAT(first, HasSubstr("\"op\":\"write\",\"path\":\"/f\",\"size_bytes\":5,\"ok\":true"));
  rows();
  Attributes file = lstat(*user_, "/audit/events.jsonl").take_value();
  EXPECT_GT(file.size, first.size());
  std::string second = read_file(*user_, "/audit/events.jsonl").take_value();
  EXPECT_EQ(second.size(), file.size);
  EXPECT_EQ(second.substr(0, first.size()), first);
  EXPECT_EQ(second.back(), '\n');
}

TEST_P(AuditFsTest, TheTrailCannotBeChangedThroughTheTree) {
  EXPECT_EQ(error_of(append_file(*kernel_, "/audit/events.jsonl", as_bytes("x"))), Code::kReadOnly);
  EXPECT_EQ(error_of(write_file(*file_, "/audit/events.jsonl", as_bytes("x"))), Code::kReadOnly);
  EXPECT_EQ(error_of(unlink(*file_, "/audit/events.jsonl")), Code::kReadOnly);
  EXPECT_EQ(error_of(rename(*file_, "/audit/events.jsonl", "/x")), Code::kReadOnly);
  ASSERT_OK(write_file(*file_, "/y", as_bytes("forged")));
  EXPECT_EQ(error_of(rename(*file_, "/y", "/audit/events.jsonl")), Code::kReadOnly);
  EXPECT_EQ(error_of(link(*file_, "/y", "/audit/events.jsonl")), Code::kExists);
  ASSERT_OK(append_file(*kernel_, "/audit/anchors.jsonl", as_bytes("{}\n")));
  // A file of that name that another program has put there is covered.
  ASSERT_OK(write_file(store_->fs(), "/audit/events.jsonl", as_bytes("forged")));
  EXPECT_THAT(read_file(*user_, "/audit/events.jsonl").take_value(), ::testing::Not(HasSubstr("forged")));
  EXPECT_THAT(read_dir(*user_, "/audit").take_value(),
              ::testing::UnorderedElementsAre("anchors.jsonl", "events.jsonl"));
}

TEST(AuditFs, WhereNothingIsRecordedThereIsNoTable) {
  testing::TempDir dir;
  testing::FakeClock clock;
  auto store = Store::open(dir.file("a.db"), {.mode = OpenMode::kCreate}, clock).take_value();
  MemoryFs working(clock);
  auto names = Namespace::open(store->fs(), working, {.agent = "a1"}, clock).take_value();
  auto view = names->view({.agent = "a1", .space = Space::kUser, .door = "test", .session = {}});
  ASSERT_OK(write_file(*view, "/f", as_bytes("x")));
  EXPECT_FALSE(view->is_recorded());
  EXPECT_EQ(store->audit().head().take_value().seq, 0);
  Statement find = store->database().prepare("SELECT count(*) FROM sqlite_schema WHERE name='wr_audit'").take_value();
  EXPECT_EQ(find.find_integer().take_value(), 0);
}

TEST_P(AuditFsTest, AnOperationThatFindsNoFileIsRecordedOnce) {
  news();
  auto read = [&](const std::string& path) { return on_record(*user_, "read", path, read_file(*user_, path)); };
  EXPECT_EQ(error_of(read("/none")), Code::kNotFound);
  EXPECT_EQ(error_of(read("/mem")), Code::kIsDirectory);
  EXPECT_THAT(news(), ElementsAre("read /none not_found", "read /mem is_directory"));
  EXPECT_EQ(error_of(on_record(*user_, "list", "/none", read_dir(*user_, "/none"))), Code::kNotFound);
  EXPECT_EQ(error_of(on_record(*user_, "delete", "/none/x", remove(*user_, "/none/x"))), Code::kNotFound);
  EXPECT_EQ(error_of(on_record(*user_, "delete", "/mem", remove(*user_, "/mem"))), Code::kIsDirectory);
  EXPECT_THAT(news(), ElementsAre("list /none not_found", "delete /none/x not_found", "delete /mem is_directory"));
}

TEST_P(AuditFsTest, AnOperationThatTheViewRecordsIsNotRecordedTwice) {
  ASSERT_OK(write_file(*kernel_, "/policy/rules", as_bytes("x")));
  ASSERT_OK(make_dirs(*user_, "/full/inside"));
  news();
  EXPECT_EQ(error_of(on_record(*user_, "delete", "/policy/rules", remove(*user_, "/policy/rules"))), Code::kDenied);
  EXPECT_EQ(error_of(on_record(*user_, "delete", "/full", remove_dir(*user_, "/full"))), Code::kNotEmpty);
  EXPECT_THAT(news(), ElementsAre("delete /policy/rules permission_denied", "delete /full not_empty"));
}

INSTANTIATE_TEST_SUITE_P(Each, AuditFsTest, ::testing::Values(Commits::kEach, Commits::kGrouped));

}  // namespace
}  // namespace warren
