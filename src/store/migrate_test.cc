#include "store/migrate.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/database.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/record/tool_calls.h"
#include "store/sql_file_testing.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

using ::testing::ElementsAre;

std::string bytes_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

CallRecord finished_call() {
  CallRecord call;
  call.name = "t";
  call.started_at = 5;
  call.completed_at = 6;
  call.result = "1";
  return call;
}

class Migrate : public ::testing::TestWithParam<const char*> {
 protected:
  void make(std::string_view name) { ASSERT_OK(make_from_sql(file_, name)); }

  std::unique_ptr<Store> open() {
    auto store = Store::open(file_, {}, clock_);
    EXPECT_OK(store);
    return store.ok() ? std::move(store).value() : nullptr;
  }

  void expect_clean() {
    auto report = check_agent(file_, clock_);
    ASSERT_OK(report);
    for (const Violation& left : report->violations) ADD_FAILURE() << left.rule << ": " << left.message;
  }

  std::int64_t ask(Sql sql) {
    auto database = Database::open(file_, {.mode = OpenMode::kReadOnly});
    EXPECT_OK(database);
    auto query = (*database)->prepare(sql);
    EXPECT_OK(query);
    return query->find_integer().value().value_or(-1);
  }

  // The content of every file in tests/data, read through every API.
  void expect_content(Store& store) {
    EXPECT_EQ(read_file(store.fs(), "/notes/a.txt").value(), "hello\n");
    EXPECT_EQ(read_file(store.fs(), "/b.txt").value(), "hello\n");
    EXPECT_EQ(read_file(store.fs(), "/link").value(), "hello\n");
    EXPECT_EQ(read_file(store.fs(), "/big").value(), std::string(4096, 'x') + std::string(904, 'y'));
    EXPECT_EQ(read_file(store.fs(), "/empty").value(), "");
    EXPECT_THAT(read_dir(store.fs(), "/").value(), ElementsAre("b.txt", "big", "empty", "link", "notes"));
    Attributes a = stat(store.fs(), "/notes/a.txt").value();
    EXPECT_EQ(a.inode, Inode{3});
    EXPECT_EQ(a.mtime, (Timestamp{.seconds = 1600000103, .nanoseconds = 0}));
    EXPECT_EQ(a.owner, (Owner{.uid = 1000, .gid = 1000}));
    EXPECT_EQ(store.kv().get("user:name").value(), "\"Ada\"");
    EXPECT_EQ(store.tools().get(1)->name, "search");
    EXPECT_EQ(store.tools().get(2)->status, CallStatus::kError);
  }

  TempDir dir_;
  std::string file_ = dir_.file("old.db");
  FakeClock clock_;
};

class EverySchema : public Migrate {};

TEST_P(EverySchema, FS25_OpensAndIsReadForEver) {
  make(GetParam());
  auto store = open();
  ASSERT_NE(store, nullptr);
  expect_content(*store);
}

TEST_P(EverySchema, FS25_MigratesToTheCurrentOneAndKeepsEverything) {
  make(GetParam());
  ASSERT_OK(migrate_agent(file_, DryRun::kNo));
  expect_clean();
  auto store = open();
  ASSERT_NE(store, nullptr);
  EXPECT_FALSE(store->is_read_only());
  expect_content(*store);
  EXPECT_EQ(stat(store->fs(), "/b.txt")->nlink, 2U);
}

TEST_P(EverySchema, CanBeChangedAfterMigrating) {
  make(GetParam());
  ASSERT_OK(migrate_agent(file_, DryRun::kNo));
  {
    auto store = open();
    ASSERT_NE(store, nullptr);
    ASSERT_OK(write_file(store->fs(), "/new/file", as_bytes("fresh")));
    ASSERT_OK(unlink(store->fs(), "/b.txt"));
    ASSERT_OK(store->kv().set("k", "[]"));
    ASSERT_OK(store->tools().record(finished_call()));
    EXPECT_EQ(stat(store->fs(), "/notes/a.txt")->nlink, 1U);
    EXPECT_EQ(read_file(store->fs(), "/new/file").value(), "fresh");
  }
  expect_clean();
}

TEST_P(EverySchema, ASecondMigrationFindsNothingToDo) {
  make(GetParam());
  ASSERT_OK(migrate_agent(file_, DryRun::kNo));
  std::string before = bytes_of(file_);
  auto again = migrate_agent(file_, DryRun::kNo);
  ASSERT_OK(again);
  EXPECT_TRUE(again->steps.empty());
  EXPECT_EQ(again->from, "0.4");
  EXPECT_EQ(bytes_of(file_), before);
}

TEST_P(EverySchema, ADryRunChangesNoByte) {
  make(GetParam());
  std::string before = bytes_of(file_);
  ASSERT_OK(migrate_agent(file_, DryRun::kYes));
  EXPECT_EQ(bytes_of(file_), before);
}

INSTANTIATE_TEST_SUITE_P(Each, EverySchema, ::testing::Values("agent-0.0.sql", "agent-0.2.sql", "agent-0.4.sql"));

TEST_F(Migrate, FS25_OldSchemasOpenForReadingOnly) {
  make("agent-0.2.sql");
  std::string before = bytes_of(file_);
  {
    auto store = open();
    ASSERT_NE(store, nullptr);
    EXPECT_TRUE(store->is_read_only());
    EXPECT_EQ(error_of(write_file(store->fs(), "/x", as_bytes("y"))), Code::kReadOnly);
    EXPECT_EQ(error_of(store->kv().set("k", "1")), Code::kReadOnly);
  }
  EXPECT_EQ(bytes_of(file_), before);
}

TEST_F(Migrate, EachStepReportsItsActions) {
  make("agent-0.0.sql");
  auto report = migrate_agent(file_, DryRun::kNo);
  ASSERT_OK(report);
  EXPECT_EQ(report->from, "0.0");
  EXPECT_EQ(report->to, "0.4");
  ASSERT_EQ(report->steps.size(), 2U);
  EXPECT_THAT(report->steps[0].actions,
              ElementsAre("Added nlink column to fs_inode", "Counted nlink of every inode from its entries"));
  EXPECT_THAT(report->steps[1].actions,
              ElementsAre("Added atime_nsec column to fs_inode", "Added mtime_nsec column to fs_inode",
                          "Added ctime_nsec column to fs_inode", "Added rdev column to fs_inode"));
}

TEST_F(Migrate, ADryRunReportsTheSame) {
  make("agent-0.2.sql");
  auto planned = migrate_agent(file_, DryRun::kYes);
  auto done = migrate_agent(file_, DryRun::kNo);
  ASSERT_OK(planned);
  ASSERT_OK(done);
  ASSERT_EQ(planned->steps.size(), 1U);
  ASSERT_EQ(done->steps.size(), 1U);
  EXPECT_EQ(planned->steps[0].actions, done->steps[0].actions);
}

TEST_F(Migrate, FS12_LinkCountsComeFromTheEntries) {
  make("agent-0.0.sql");
  ASSERT_OK(migrate_agent(file_, DryRun::kNo));
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 3"), 2);
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 4"), 1);
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 1"), 1);
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 2"), 1);
}

TEST_F(Migrate, FS20_TheSchemaVersionIsWritten) {
  make("agent-0.2.sql");
  ASSERT_OK(migrate_agent(file_, DryRun::kNo));
  EXPECT_EQ(ask("SELECT value = '0.4' FROM fs_config WHERE key = 'schema_version'"), 1);
}

TEST_F(Migrate, AnInterruptedMigrationByAnotherProgramIsFinished) {
  make("agent-0.2.sql");
  {
    auto database = Database::open(file_, {});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute("ALTER TABLE fs_inode ADD COLUMN atime_nsec INTEGER NOT NULL DEFAULT 0"));
  }
  auto report = migrate_agent(file_, DryRun::kNo);
  ASSERT_OK(report);
  EXPECT_EQ(report->steps[0].actions[0], "atime_nsec column already exists (skipping)");
  expect_clean();
}

TEST_F(Migrate, ToolCallsWithoutAStatusStayAsTheyAreAndGrow) {
  make("agent-0.0.sql");
  ASSERT_OK(migrate_agent(file_, DryRun::kNo));
  EXPECT_EQ(ask("SELECT count(*) FROM pragma_table_info('tool_calls') WHERE name = 'status'"), 0);
  auto store = open();
  ASSERT_NE(store, nullptr);
  auto id = store->tools().record(finished_call());
  ASSERT_OK(id);
  EXPECT_EQ(store->tools().get(*id)->status, CallStatus::kSuccess);
}

TEST_F(Migrate, DataFromBeforeChunksIsSplit) {
  make("agent-0.0-offsets.sql");
  auto report = migrate_agent(file_, DryRun::kNo);
  ASSERT_OK(report);
  EXPECT_EQ(report->steps[0].actions[0], "Split fs_data into chunks of one size");
  expect_clean();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data"), 3);
  EXPECT_EQ(ask("SELECT count(*) FROM sqlite_schema WHERE name = 'wr_old_data'"), 0);
  auto store = open();
  ASSERT_NE(store, nullptr);
  expect_content(*store);
}

TEST_F(Migrate, DataFromBeforeChunksCanBeChecked) {
  make("agent-0.0-offsets.sql");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  ASSERT_EQ(report->violations.size(), 1U);
  EXPECT_EQ(report->violations[0].rule, "FS-19");
}

TEST_F(Migrate, DataFromBeforeChunksWithGapsIsSplit) {
  make("agent-0.0-offsets.sql");
  {
    auto database = Database::open(file_, {});
    ASSERT_OK(database);
    ASSERT_OK(
        (*database)->execute("UPDATE fs_data SET offset = 9000 WHERE offset = 4000;"
                             "UPDATE fs_inode SET size = 10000 WHERE ino = 4"));
  }
  ASSERT_OK(migrate_agent(file_, DryRun::kNo));
  expect_clean();
  auto store = open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(read_file(store->fs(), "/big").value(),
            std::string(4000, 'x') + std::string(5000, '\0') + std::string(96, 'x') + std::string(904, 'y'));
}

TEST_F(Migrate, PiecesThatOverlapAreRefusedAndNothingIsChanged) {
  make("agent-0.0-offsets.sql");
  {
    auto database = Database::open(file_, {});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute("UPDATE fs_data SET offset = 3999 WHERE offset = 4000"));
  }
  EXPECT_EQ(error_of(migrate_agent(file_, DryRun::kNo)), Code::kUnsupported);
  EXPECT_EQ(ask("SELECT count(*) FROM pragma_table_info('fs_data') WHERE name = 'offset'"), 1);
  EXPECT_EQ(ask("SELECT count(*) FROM pragma_table_info('fs_inode') WHERE name = 'nlink'"), 0);
}

TEST_F(Migrate, FS20_AWrongVersionInTheConfigIsCorrected) {
  make("agent-0.4.sql");
  {
    auto database = Database::open(file_, {});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute("UPDATE fs_config SET value = '0.2' WHERE key = 'schema_version'"));
  }
  auto report = migrate_agent(file_, DryRun::kNo);
  ASSERT_OK(report);
  EXPECT_EQ(report->steps.size(), 1U);
  expect_clean();
}

TEST_F(Migrate, AFileThatIsNotAnAgentFileIsRefused) {
  std::ofstream(file_) << "some text that is not a database and does not claim to be one in any way at all";
  EXPECT_EQ(error_of(migrate_agent(file_, DryRun::kNo)), Code::kCorrupt);
  EXPECT_EQ(error_of(migrate_agent(dir_.file("none"), DryRun::kNo)), Code::kNotFound);
}

}  // namespace
}  // namespace warren::testing
