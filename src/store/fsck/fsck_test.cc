#include "store/fsck/fsck.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/database.h"
#include "store/schema.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

using ::testing::HasSubstr;

// /dir (2), /dir/file (3, two chunks, also called /twin), /link (4), /pipe (5), /empty (6)
constexpr Sql kSample = R"sql(
INSERT INTO fs_inode (ino, mode, nlink, size, atime, mtime, ctime) VALUES
  (2, 16877, 1, 0, 1, 1, 1), (3, 33188, 2, 5000, 1, 1, 1), (4, 41471, 1, 4, 1, 1, 1), (5, 4516, 1, 0, 1, 1, 1),
  (6, 33188, 1, 0, 1, 1, 1);
INSERT INTO fs_dentry (name, parent_ino, ino) VALUES
  ('dir', 1, 2), ('file', 2, 3), ('twin', 1, 3), ('link', 1, 4), ('pipe', 1, 5), ('empty', 1, 6);
INSERT INTO fs_data (ino, chunk_index, data) VALUES (3, 0, zeroblob(4096)), (3, 1, zeroblob(904));
INSERT INTO fs_symlink (ino, target) VALUES (4, '/dir');
INSERT INTO kv_store (key, value, created_at, updated_at) VALUES ('a', '{"b":1}', 5, 6);
INSERT INTO tool_calls (name, parameters, result, error, status, started_at, completed_at, duration_ms) VALUES
  ('ok', '{}', '1', NULL, 'success', 10, 12, 2000), ('bad', NULL, NULL, 'no', 'error', 10, 10, 0),
  ('none', NULL, NULL, NULL, 'success', 10, 10, 0), ('open', '[]', NULL, NULL, 'pending', 10, NULL, NULL);
)sql";

constexpr Sql kOverlayTables = R"sql(
CREATE TABLE fs_whiteout (path TEXT PRIMARY KEY, parent_path TEXT NOT NULL, created_at INTEGER NOT NULL);
CREATE TABLE fs_origin (delta_ino INTEGER PRIMARY KEY, base_ino INTEGER NOT NULL);
CREATE TABLE fs_overlay_config (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO fs_overlay_config VALUES ('base_path', '/base');
INSERT INTO fs_whiteout VALUES ('/gone', '/', 1), ('/dir/gone', '/dir', 1);
INSERT INTO fs_origin VALUES (3, 77);
)sql";

class Fsck : public ::testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(file_, {.mode = OpenMode::kCreate});
    ASSERT_OK(database);
    ASSERT_OK(create_schema(**database, 4096, clock_.now()));
    ASSERT_OK((*database)->execute(kSample));
  }

  void plant(Sql sql) {
    auto database = Database::open(file_, {});
    ASSERT_OK(database);
    ASSERT_OK((*database)->execute(sql));
  }

  // The violated rules, each once, in the order found.
  std::vector<std::string> violated() {
    auto report = check_agent(file_, clock_);
    EXPECT_OK(report);
    if (!report.ok()) return {"error"};
    return rules_of(*report);
  }

  static std::vector<std::string> rules_of(const FsckReport& report) {
    std::vector<std::string> rules;
    for (const Violation& violation : report.violations) {
      if (rules.empty() || rules.back() != violation.rule) rules.push_back(violation.rule);
    }
    return rules;
  }

  std::string first_message() {
    auto report = check_agent(file_, clock_);
    EXPECT_OK(report);
    return report.ok() && !report->clean() ? report->violations.front().message : "";
  }

  RepairReport repair() {
    auto report = repair_agent(file_, clock_);
    EXPECT_OK(report);
    return report.ok() ? *report : RepairReport{};
  }

  void expect_repaired() {
    RepairReport report = repair();
    EXPECT_GT(report.repaired, 0U);
    for (const Violation& left : report.after.violations) ADD_FAILURE() << left.rule << ": " << left.message;
  }

  void expect_not_repairable() {
    RepairReport report = repair();
    EXPECT_EQ(report.backup_path, "");
    EXPECT_EQ(rules_of(report.after), rules_of(report.before));
  }

  std::int64_t ask(Sql sql) {
    auto database = Database::open(file_, {});
    EXPECT_OK(database);
    auto query = (*database)->prepare(sql);
    EXPECT_OK(query);
    return query->find_integer().value().value_or(-1);
  }

  using Rules = std::vector<std::string>;

  TempDir dir_;
  std::string file_ = dir_.file("a.db");
  FakeClock clock_;
};

TEST_F(Fsck, ASoundAgentIsCleanAndCounted) {
  plant(kOverlayTables);
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  for (const Violation& left : report->violations) ADD_FAILURE() << left.rule << ": " << left.message;
  EXPECT_EQ(report->inodes, 6U);
  EXPECT_EQ(report->entries, 6U);
  EXPECT_EQ(report->chunks, 2U);
  EXPECT_EQ(report->keys, 1U);
  EXPECT_EQ(report->calls, 4U);
}

TEST_F(Fsck, CheckingChangesNothing) {
  auto before = std::filesystem::last_write_time(file_);
  EXPECT_TRUE(violated().empty());
  EXPECT_EQ(std::filesystem::last_write_time(file_), before);
}

TEST_F(Fsck, NothingToRepairMakesNoBackup) {
  RepairReport report = repair();
  EXPECT_EQ(report.backup_path, "");
  EXPECT_EQ(report.repaired, 0U);
  EXPECT_TRUE(report.after.clean());
}

TEST_F(Fsck, ARepairLeavesTheOldFileAsABackup) {
  plant("UPDATE fs_inode SET nlink = 9 WHERE ino = 6");
  RepairReport report = repair();
  EXPECT_EQ(report.backup_path, file_ + ".before-repair-1700000000");
  auto backup = check_agent(report.backup_path, clock_);
  ASSERT_OK(backup);
  EXPECT_EQ(rules_of(*backup), Rules{"FS-12"});
}

TEST_F(Fsck, TwoRepairsWithinASecondKeepBothBackups) {
  plant("UPDATE fs_inode SET nlink = 9 WHERE ino = 6");
  std::string first = repair().backup_path;
  plant("UPDATE fs_inode SET nlink = 9 WHERE ino = 6");
  std::string second = repair().backup_path;
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::filesystem::exists(first));
  EXPECT_TRUE(std::filesystem::exists(second));
}

TEST_F(Fsck, ManyViolationsOfOneRuleAreCountedNotListed) {
  plant(
      "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 149)"
      " INSERT INTO fs_dentry (name, parent_ino, ino) SELECT 'x' || i, 1, i FROM n");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(report->violations.size(), 21U);
  EXPECT_EQ(report->violations.back().message, "and 30 more");
}

TEST_F(Fsck, AFileThatIsNotAnAgentIsRefused) {
  std::string other = dir_.file("other.db");
  ASSERT_OK((*Database::open(other, {.mode = OpenMode::kCreate}))->execute("CREATE TABLE t (x)"));
  EXPECT_EQ(error_of(check_agent(other, clock_)), Code::kCorrupt);
  std::string text = dir_.file("text");
  std::ofstream(text) << "this is not a database, but it is long enough to have been one, had it wanted to be";
  EXPECT_EQ(error_of(check_agent(text, clock_)), Code::kCorrupt);
  EXPECT_EQ(error_of(check_agent(dir_.file("missing"), clock_)), Code::kNotFound);
}

TEST_F(Fsck, FS1_AMissingRootIsReportedAndMadeAgain) {
  plant("DELETE FROM fs_inode WHERE ino = 1");
  EXPECT_EQ(violated(), Rules{"FS-1"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT mode FROM fs_inode WHERE ino = 1"), 16877);
}

TEST_F(Fsck, FS2_ARootThatIsAFileIsReportedAndItsContentSaved) {
  plant(
      "UPDATE fs_inode SET mode = 33188, size = 3 WHERE ino = 1; INSERT INTO fs_data VALUES (1, 0, 'abc');"
      "UPDATE fs_data SET data = x'616263' WHERE ino = 1");
  EXPECT_EQ(violated(), Rules{"FS-2"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data c JOIN fs_dentry d ON d.ino = c.ino JOIN fs_dentry l"
                " ON l.ino = d.parent_ino WHERE l.name = 'lost+found' AND c.data = x'616263'"),
            1);
}

TEST_F(Fsck, FS2_ARootWithANameIsReportedAndLosesIt) {
  plant("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('up', 2, 1)");
  EXPECT_EQ(violated(), Rules{"FS-2"});
  expect_repaired();
}

TEST_F(Fsck, FS3_AnEntryToAMissingInodeIsReportedAndRemoved) {
  plant("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('ghost', 1, 99)");
  EXPECT_EQ(violated(), Rules{"FS-3"});
  EXPECT_EQ(first_message(), "entry 'ghost' in directory 1 leads to inode 99, which does not exist");
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry"), 6);
}

TEST_F(Fsck, FS4_AnEntryInAMissingDirectoryIsReportedAndItsNodeSaved) {
  plant("UPDATE fs_dentry SET parent_ino = 99 WHERE name = 'empty'");
  EXPECT_EQ(violated(), Rules{"FS-4"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE name = '6' AND ino = 6"), 1);
}

TEST_F(Fsck, FS5_AnEntryInAFileIsReportedAndItsNodeSaved) {
  plant("UPDATE fs_dentry SET parent_ino = 3 WHERE name = 'empty'");
  EXPECT_EQ(violated(), Rules{"FS-5"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE name = '6' AND ino = 6"), 1);
}

TEST_F(Fsck, FS6_ADuplicateNameIsReportedAndTheSecondNodeIsKept) {
  plant(
      "CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, parent_ino INTEGER, ino INTEGER);"
      "INSERT INTO other SELECT * FROM fs_dentry; DROP TABLE fs_dentry; ALTER TABLE other RENAME TO fs_dentry;"
      "UPDATE fs_dentry SET name = 'pipe' WHERE name = 'empty'");
  EXPECT_EQ(violated(), Rules{"FS-6"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT ino FROM fs_dentry WHERE name = 'pipe'"), 5);
  EXPECT_EQ(ask("SELECT ino FROM fs_dentry WHERE name = '6'"), 6);
}

TEST_F(Fsck, FS7_AModeWithoutATypeIsReported) {
  plant("UPDATE fs_inode SET mode = 420 WHERE ino = 6");
  EXPECT_EQ(violated(), Rules{"FS-7"});
  expect_not_repairable();
}

TEST_F(Fsck, FS8_DataOfADirectoryIsReportedAndRemoved) {
  plant("INSERT INTO fs_data VALUES (2, 0, x'00')");
  EXPECT_EQ(violated(), Rules{"FS-8"});
  expect_repaired();
}

TEST_F(Fsck, FS8_DataOfASymbolicLinkIsReportedAndRemoved) {
  plant("INSERT INTO fs_data VALUES (4, 0, x'00')");
  EXPECT_EQ(violated(), Rules{"FS-8"});
  expect_repaired();
}

TEST_F(Fsck, FS9_AShortChunkInTheMiddleIsReportedAndFilledWithZeros) {
  plant("UPDATE fs_data SET data = x'006100' WHERE ino = 3 AND chunk_index = 0");
  EXPECT_EQ(violated(), Rules{"FS-9"});
  EXPECT_EQ(first_message(), "chunk 0 of inode 3 holds 3 bytes, and is not the last one");
  expect_repaired();
  EXPECT_EQ(ask("SELECT octet_length(data) FROM fs_data WHERE ino = 3 AND chunk_index = 0"), 4096);
  EXPECT_EQ(ask("SELECT substr(data, 1, 4) = x'00610000' AND substr(data, 5) = zeroblob(4092)"
                " FROM fs_data WHERE ino = 3 AND chunk_index = 0"),
            1);
}

TEST_F(Fsck, FS9_AChunkThatIsTooLongIsReported) {
  plant("UPDATE fs_data SET data = zeroblob(4097) WHERE ino = 3 AND chunk_index = 0");
  EXPECT_EQ(violated(), Rules{"FS-9"});
}

TEST_F(Fsck, FS9_AShortLastChunkAndAHoleAfterItAreValid) {
  plant("UPDATE fs_inode SET size = 1000000 WHERE ino = 3; UPDATE fs_data SET data = x'61' WHERE chunk_index = 1");
  EXPECT_TRUE(violated().empty());
}

TEST_F(Fsck, FS10_AChunkBeyondTheSizeIsReportedAndCut) {
  plant("UPDATE fs_inode SET size = 4100 WHERE ino = 3; INSERT INTO fs_data VALUES (6, 7, x'6162')");
  EXPECT_EQ(violated(), Rules{"FS-10"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT octet_length(data) FROM fs_data WHERE ino = 3 AND chunk_index = 1"), 4);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_data WHERE ino = 6"), 0);
}

TEST_F(Fsck, FS10_ANegativeChunkIndexIsReportedAndRemoved) {
  plant("INSERT INTO fs_data VALUES (3, -1, zeroblob(4096))");
  EXPECT_EQ(violated(), Rules{"FS-10"});
  expect_repaired();
}

TEST_F(Fsck, FS11_ANodeWithoutANameIsReportedAndGoesToLostAndFound) {
  plant("DELETE FROM fs_dentry WHERE ino = 6");
  EXPECT_EQ(violated(), Rules{"FS-11"});
  EXPECT_EQ(first_message(), "inode 6 has no name");
  expect_repaired();
  EXPECT_EQ(ask("SELECT d.ino FROM fs_dentry d JOIN fs_dentry l ON l.ino = d.parent_ino"
                " WHERE l.name = 'lost+found' AND l.parent_ino = 1 AND d.name = '6'"),
            6);
}

TEST_F(Fsck, FS11_ADirectoryWithoutANameKeepsWhatIsInIt) {
  plant("DELETE FROM fs_dentry WHERE ino = 2");
  EXPECT_EQ(violated(), Rules{"FS-11"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT parent_ino FROM fs_dentry WHERE name = 'file'"), 2);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE name = '2'"), 1);
}

TEST_F(Fsck, FS11_LostAndFoundTakesAnotherNameWhereAFileHasIt) {
  plant("UPDATE fs_dentry SET name = 'lost+found' WHERE ino = 5; DELETE FROM fs_dentry WHERE ino = 6");
  expect_repaired();
  EXPECT_EQ(ask("SELECT ino FROM fs_dentry WHERE name = 'lost+found'"), 5);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE name = 'lost+found.1'"), 1);
}

TEST_F(Fsck, FS11_ATakenNameInLostAndFoundIsLeftAlone) {
  plant(
      "DELETE FROM fs_dentry WHERE ino = 6; INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime)"
      " VALUES (7, 16832, 1, 1, 1, 1); UPDATE fs_dentry SET name = '6', parent_ino = 7 WHERE ino = 5;"
      "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('lost+found', 1, 7)");
  expect_repaired();
  EXPECT_EQ(ask("SELECT ino FROM fs_dentry WHERE name = '6' AND parent_ino = 7"), 5);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE name LIKE '6.%' AND ino = 6"), 1);
}

TEST_F(Fsck, FS12_AWrongLinkCountIsReportedAndCorrected) {
  plant("UPDATE fs_inode SET nlink = 1 WHERE ino = 3");
  EXPECT_EQ(violated(), Rules{"FS-12"});
  EXPECT_EQ(first_message(), "inode 3 has link count 1, but 2 names");
  expect_repaired();
  EXPECT_EQ(ask("SELECT nlink FROM fs_inode WHERE ino = 3"), 2);
}

TEST_F(Fsck, FS24_ADirectorysStoredLinkCountIsNotLookedAt) {
  plant("UPDATE fs_inode SET nlink = 42 WHERE ino IN (1, 2)");
  EXPECT_TRUE(violated().empty());
}

TEST_F(Fsck, FS13_ALinkWithoutATargetIsReported) {
  plant("DELETE FROM fs_symlink");
  EXPECT_EQ(violated(), Rules{"FS-13"});
  expect_not_repairable();
}

TEST_F(Fsck, FS13_ATargetOfAFileIsReportedAndRemoved) {
  plant("INSERT INTO fs_symlink VALUES (6, '/x')");
  EXPECT_EQ(violated(), Rules{"FS-13"});
  expect_repaired();
}

TEST_F(Fsck, FS14_RowsOfNoInodeAreReportedAndRemoved) {
  plant("INSERT INTO fs_data VALUES (99, 0, x'61'); INSERT INTO fs_symlink VALUES (98, '/x')");
  EXPECT_EQ(violated(), Rules{"FS-14"});
  EXPECT_EQ(first_message(), "1 chunks of data belong to inode 99, which does not exist");
  expect_repaired();
}

TEST_F(Fsck, FS15_NanosecondsOutOfRangeAreReportedAndSetToZero) {
  plant("UPDATE fs_inode SET mtime_nsec = 1000000000, atime_nsec = 7 WHERE ino = 6");
  EXPECT_EQ(violated(), Rules{"FS-15"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT mtime_nsec FROM fs_inode WHERE ino = 6"), 0);
  EXPECT_EQ(ask("SELECT atime_nsec FROM fs_inode WHERE ino = 6"), 7);
}

TEST_F(Fsck, FS16_InvalidNamesAreReportedAndTheirNodesAreKept) {
  plant(
      "UPDATE fs_dentry SET name = 'a/b' WHERE ino = 6; UPDATE fs_dentry SET name = '..' WHERE ino = 5;"
      "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('', 1, 3), ('.', 1, 3),"
      " (CAST(x'610062' AS TEXT), 1, 3), (x'61', 1, 3), (hex(zeroblob(128)), 1, 3);"
      "UPDATE fs_inode SET nlink = 7 WHERE ino = 3");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(rules_of(*report), Rules{"FS-16"});
  EXPECT_EQ(report->violations.size(), 7U);
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE name IN ('5', '6')"), 2);
}

TEST_F(Fsck, FS26_AnyBytesButSlashAndNulAreAName) {
  plant(
      "UPDATE fs_dentry SET name = CAST(x'ff0a7f' AS TEXT) WHERE ino = 6;"
      "UPDATE fs_dentry SET name = substr(hex(zeroblob(128)), 1, 255) WHERE ino = 5");
  EXPECT_TRUE(violated().empty());
}

TEST_F(Fsck, FS17_ACycleOfDirectoriesIsReportedAndBroken) {
  plant(
      "INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime) VALUES"
      " (10, 16877, 1, 1, 1, 1), (11, 16877, 1, 1, 1, 1), (12, 16877, 1, 1, 1, 1);"
      "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('a', 11, 10), ('b', 10, 11), ('below', 11, 12)");
  EXPECT_EQ(violated(), Rules{"FS-17"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE ino IN (10, 11, 12)"), 3);
}

TEST_F(Fsck, FS17_ADirectoryInItselfIsReportedAndMovedOut) {
  plant("UPDATE fs_dentry SET parent_ino = 2 WHERE ino = 2");
  EXPECT_EQ(violated(), Rules{"FS-17"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE name = 'file' AND parent_ino = 2"), 1);
}

TEST_F(Fsck, FS17_ManyCyclesAreAllBroken) {
  plant(
      "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
      " INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime) SELECT i, 16877, 1, 1, 1, 1 FROM n;"
      "INSERT INTO fs_dentry (name, parent_ino, ino) SELECT 'c', ino, ino FROM fs_inode WHERE ino >= 100");
  expect_repaired();
}

TEST_F(Fsck, FS18_ADirectoryWithTwoNamesIsReportedAndKeepsOne) {
  plant("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('again', 1, 2)");
  EXPECT_EQ(violated(), Rules{"FS-18"});
  EXPECT_EQ(first_message(), "directory 2 has 2 names");
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE ino = 2 AND name = 'dir'"), 1);
}

TEST_F(Fsck, FS19_AnInvalidChunkSizeIsReported) {
  plant("UPDATE fs_config SET value = 'big' WHERE key = 'chunk_size'");
  EXPECT_EQ(violated(), Rules{"FS-19"});
  expect_not_repairable();
}

TEST_F(Fsck, FS19_AMissingChunkSizeIsReportedAndBecomesTheDefault) {
  plant("DELETE FROM fs_config WHERE key = 'chunk_size'");
  EXPECT_EQ(violated(), Rules{"FS-19"});
  expect_repaired();
}

TEST_F(Fsck, FS20_ASchemaVersionTheTablesDoNotHaveIsReported) {
  plant("UPDATE fs_config SET value = '0.2' WHERE key = 'schema_version'");
  EXPECT_EQ(violated(), Rules{"FS-20"});
  expect_not_repairable();
}

TEST_F(Fsck, FS21_InvalidSizesTimesAndOwnersAreReported) {
  plant(
      "UPDATE fs_inode SET size = -1 WHERE ino = 6; UPDATE fs_inode SET mtime = 1.5 WHERE ino = 5;"
      "UPDATE fs_inode SET uid = -1 WHERE ino = 2");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(rules_of(*report), Rules{"FS-21"});
  EXPECT_EQ(report->violations.size(), 3U);
  expect_not_repairable();
}

TEST_F(Fsck, KV1_ADuplicateKeyIsReported) {
  plant(
      "CREATE TABLE other (key TEXT, value TEXT, created_at INTEGER, updated_at INTEGER);"
      "INSERT INTO other SELECT * FROM kv_store; INSERT INTO other SELECT * FROM kv_store;"
      "DROP TABLE kv_store; ALTER TABLE other RENAME TO kv_store");
  EXPECT_EQ(violated(), Rules{"KV-1"});
  expect_not_repairable();
}

TEST_F(Fsck, KV2_AValueThatIsNotJsonIsReportedAndKept) {
  plant("INSERT INTO kv_store VALUES ('broken', '{oops', 1, 1)");
  EXPECT_EQ(violated(), Rules{"KV-2"});
  EXPECT_EQ(first_message(), "the value of key 'broken' is not JSON");
  expect_not_repairable();
  EXPECT_EQ(ask("SELECT count(*) FROM kv_store WHERE value = '{oops'"), 1);
}

TEST_F(Fsck, KV3_TimesThatAreNotUnixSecondsAreReported) {
  plant("INSERT INTO kv_store VALUES ('ms', '1', 1700000000000, 1), ('text', '1', 1, 'today'), ('null', '1', NULL, 1)");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(rules_of(*report), Rules{"KV-3"});
  EXPECT_EQ(report->violations.size(), 3U);
}

TEST_F(Fsck, TC1_ACallWithResultAndErrorIsReported) {
  plant("UPDATE tool_calls SET error = 'no' WHERE name = 'ok'");
  EXPECT_EQ(violated(), Rules{"TC-1"});
  expect_not_repairable();
}

TEST_F(Fsck, TC1_AnEmptyErrorMeansNone) {
  plant("UPDATE tool_calls SET error = '' WHERE name = 'ok'");
  EXPECT_TRUE(violated().empty());
}

TEST_F(Fsck, TC2_AFinishedCallWithoutAnEndIsReported) {
  plant("UPDATE tool_calls SET completed_at = NULL, duration_ms = NULL WHERE name = 'ok'");
  EXPECT_EQ(violated(), Rules{"TC-2"});
}

TEST_F(Fsck, TC3_ADurationThatIsNotTheDifferenceIsReported) {
  plant("UPDATE tool_calls SET duration_ms = 5 WHERE name = 'ok'");
  EXPECT_EQ(violated(), Rules{"TC-3"});
}

TEST_F(Fsck, TC4_ParametersAndResultsThatAreNotJsonAreReported) {
  plant(
      "UPDATE tool_calls SET parameters = 'x' WHERE name = 'ok';"
      "UPDATE tool_calls SET result = '{' WHERE name = 'none'");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(rules_of(*report), Rules{"TC-4"});
  EXPECT_EQ(report->violations.size(), 2U);
}

TEST_F(Fsck, TC5_ARepairTouchesNoToolCall) {
  plant("UPDATE tool_calls SET duration_ms = 5, error = 'no' WHERE name = 'ok'; DELETE FROM fs_dentry WHERE ino = 6");
  RepairReport report = repair();
  EXPECT_EQ(rules_of(report.after), (Rules{"TC-1", "TC-3"}));
  EXPECT_EQ(ask("SELECT duration_ms FROM tool_calls WHERE name = 'ok'"), 5);
}

TEST_F(Fsck, TC6_AnUnknownStatusAndAPendingCallWithAnOutcomeAreReported) {
  plant(
      "UPDATE tool_calls SET status = 'done' WHERE name = 'ok';"
      "UPDATE tool_calls SET result = '1' WHERE name = 'open'");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(rules_of(*report), Rules{"TC-6"});
  EXPECT_EQ(report->violations.size(), 2U);
}

TEST_F(Fsck, TC2_TheShapeWithoutStatusIsCheckedToo) {
  plant(
      "DROP TABLE tool_calls; CREATE TABLE tool_calls (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,"
      " parameters TEXT, result TEXT, error TEXT, started_at INTEGER NOT NULL, completed_at INTEGER,"
      " duration_ms INTEGER); INSERT INTO tool_calls (name, result, started_at) VALUES ('x', '1', 1)");
  EXPECT_EQ(violated(), Rules{"TC-2"});
}

TEST_F(Fsck, OV1_AWhiteoutWithAWrongParentIsReportedAndCorrected) {
  plant(kOverlayTables);
  plant("INSERT INTO fs_whiteout VALUES ('/a/b', '/x', 1), ('/c', '', 1), ('/d/e/f', '/d', 1)");
  EXPECT_EQ(violated(), Rules{"OV-1"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_whiteout WHERE (path, parent_path) IN"
                " (VALUES ('/a/b', '/a'), ('/c', '/'), ('/d/e/f', '/d/e'), ('/gone', '/'), ('/dir/gone', '/dir'))"),
            5);
}

TEST_F(Fsck, OV2_AWhiteoutThatIsNotANormalisedPathIsReported) {
  plant(kOverlayTables);
  plant("INSERT INTO fs_whiteout VALUES ('a', '/', 1), ('/a//b', '/a/', 1)");
  EXPECT_THAT(violated(), ::testing::Contains("OV-2"));
}

TEST_F(Fsck, OV3_AnOriginWithoutAnInodeIsReportedAndRemoved) {
  plant(kOverlayTables);
  plant("INSERT INTO fs_origin VALUES (99, 5)");
  EXPECT_EQ(violated(), Rules{"OV-3"});
  expect_repaired();
}

constexpr Sql kOwnOverlayTables = R"sql(
CREATE TABLE wr_origin (delta_ino INTEGER PRIMARY KEY, base_path TEXT NOT NULL, hidden_names INTEGER NOT NULL);
CREATE TABLE wr_base_range (delta_ino INTEGER NOT NULL, first_byte INTEGER NOT NULL, end_byte INTEGER NOT NULL,
                            PRIMARY KEY (delta_ino, first_byte));
CREATE TABLE wr_ancestor (delta_ino INTEGER PRIMARY KEY, content BLOB NOT NULL);
INSERT INTO wr_origin VALUES (3, '/dir/file', 0);
INSERT INTO wr_base_range VALUES (3, 0, 4096), (3, 4096, 5000);
)sql";

TEST_F(Fsck, WR11_RowsWithoutAnInodeAreReportedAndRemoved) {
  plant(kOverlayTables);
  plant(kOwnOverlayTables);
  EXPECT_TRUE(violated().empty());
  plant(
      "INSERT INTO wr_origin VALUES (99, '/x', 0); INSERT INTO wr_base_range VALUES (99, 0, 1);"
      "INSERT INTO wr_ancestor VALUES (99, x'00')");
  EXPECT_EQ(violated(), Rules{"WR-11"});
  expect_repaired();
}

TEST_F(Fsck, WR12_InvalidRangesAreReported) {
  plant(kOverlayTables);
  plant(kOwnOverlayTables);
  plant("UPDATE wr_base_range SET end_byte = 5001 WHERE first_byte = 4096");
  EXPECT_EQ(violated(), Rules{"WR-12"});
  plant("UPDATE wr_base_range SET end_byte = 4500 WHERE first_byte = 0");
  EXPECT_EQ(violated(), Rules{"WR-12"});
}

TEST_F(Fsck, OV4_AnOverlayWithoutABaseIsReported) {
  plant(kOverlayTables);
  plant("DELETE FROM fs_overlay_config");
  EXPECT_EQ(violated(), Rules{"OV-4"});
}

TEST_F(Fsck, OV5_WhiteoutsWithoutAParentColumnAreFine) {
  plant(
      "CREATE TABLE fs_whiteout (path TEXT PRIMARY KEY, created_at INTEGER NOT NULL);"
      "INSERT INTO fs_whiteout VALUES ('/gone', 1)");
  EXPECT_TRUE(violated().empty());
}

TEST_F(Fsck, OV6_AWhiteoutOfAnExistingFileIsReportedAndRemoved) {
  plant(kOverlayTables);
  plant("INSERT INTO fs_whiteout VALUES ('/dir/file', '/dir', 1)");
  EXPECT_EQ(violated(), Rules{"OV-6"});
  EXPECT_EQ(first_message(), "'/dir/file' exists, but has a whiteout");
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_whiteout"), 2);
}

TEST_F(Fsck, WR1_ADamagedPageIsReported) {
  std::uintmax_t size = std::filesystem::file_size(file_);
  std::fstream raw(file_, std::ios::in | std::ios::out | std::ios::binary);
  for (std::uintmax_t page = 8192; page + 4096 <= size; page += 4096) {
    raw.seekp(static_cast<std::streamoff>(page + 100));
    raw << std::string(3000, '\x5a');
  }
  raw.close();
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_THAT(rules_of(*report), ::testing::Contains("WR-1"));
}

TEST_F(Fsck, WR2_AForeignEncodingIsReported) {
  std::string foreign = dir_.file("utf16.db");
  {
    auto database = Database::open(foreign, {.mode = OpenMode::kCreate});
    ASSERT_OK(database);
    auto mode = (*database)->execute("PRAGMA encoding='UTF-16le'");
    ASSERT_OK(mode);
    ASSERT_OK(create_schema(**database, 4096, clock_.now()));
  }
  auto report = check_agent(foreign, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(rules_of(*report), Rules{"WR-2"});
}

TEST_F(Fsck, WR3_TriggersAndVirtualTablesAreReported) {
  plant("CREATE TRIGGER watch AFTER INSERT ON kv_store BEGIN SELECT 1; END; CREATE VIRTUAL TABLE words USING fts5(x)");
  auto report = check_agent(file_, clock_);
  ASSERT_OK(report);
  EXPECT_EQ(rules_of(*report), Rules{"WR-3"});
  ASSERT_EQ(report->violations.size(), 2U);
  EXPECT_THAT(report->violations[0].message, ::testing::HasSubstr("DROP TRIGGER"));
  EXPECT_THAT(report->violations[1].message, ::testing::HasSubstr("DROP TABLE"));
  expect_not_repairable();
}

TEST_F(Fsck, WR4_ANewerFormatIsRefusedAndAMissingOneReported) {
  plant("DELETE FROM wr_meta WHERE key = 'format'");
  EXPECT_EQ(violated(), Rules{"WR-4"});
  plant("INSERT INTO wr_meta VALUES ('format', 2)");
  EXPECT_EQ(error_of(check_agent(file_, clock_)), Code::kUnsupported);
}

TEST_F(Fsck, WR5_AJournalRowThatIsNotAListOfChangesIsReportedAndRemoved) {
  plant("INSERT INTO wr_journal (at_us, origin, changes) VALUES (1, 1, x'640300'), (1, 1, x'6501ff')");
  EXPECT_EQ(violated(), Rules{"WR-5"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT changes = x'2a00' FROM wr_journal ORDER BY seq DESC LIMIT 1"), 1);
}

TEST_F(Fsck, WR6_AnAttributeWithoutANameIsReported) {
  plant("INSERT INTO wr_xattr VALUES (3, '', x'61')");
  EXPECT_EQ(violated(), Rules{"WR-6"});
}

TEST_F(Fsck, OurRowsThatAnotherProgramLeftBehindAreNotDamageAndARepairDropsThem) {
  plant(
      "INSERT INTO wr_xattr VALUES (99, 'user.a', x'61'), (3, 'user.a', x'61');"
      "INSERT INTO wr_expiry VALUES (99, 1, 1, 'gone');"
      "INSERT INTO wr_kv_expiry VALUES ('nobody', 1, 1)");
  EXPECT_EQ(violated(), Rules{});
  plant("INSERT INTO wr_tool_call (id) VALUES (99)");
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_xattr"), 1);
  EXPECT_EQ(ask("SELECT count(*) FROM wr_kv_expiry"), 0);
  EXPECT_EQ(ask("SELECT count(*) FROM wr_expiry"), 0);
}

TEST_F(Fsck, WR7_AnOrphanMustHaveNoNameAndIsNotReportedForThat) {
  plant(
      "DELETE FROM fs_dentry WHERE ino = 6; UPDATE fs_inode SET nlink = 0 WHERE ino = 6;"
      "INSERT INTO wr_orphan VALUES (6, 'b', 1, 1, 1)");
  EXPECT_TRUE(violated().empty());
  plant("INSERT INTO wr_orphan VALUES (5, 'b', 1, 1, 1), (99, 'b', 1, 1, 1)");
  EXPECT_EQ(violated(), Rules{"WR-7"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_orphan WHERE ino = 6"), 1);
  plant("UPDATE fs_inode SET nlink = 1 WHERE ino = 6");
  EXPECT_EQ(violated(), Rules{"WR-7"});
  expect_repaired();
}

TEST_F(Fsck, WR8_AnInvalidExpiryIsReportedAndRemoved) {
  plant("INSERT INTO wr_kv_expiry VALUES ('a', 1, 1), ('b', 'soon', 1)");
  EXPECT_EQ(violated(), Rules{"WR-8"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_kv_expiry"), 1);
}

TEST_F(Fsck, WR13_AnInvalidExpiryOfAFileIsReportedAndRemoved) {
  plant("INSERT INTO wr_expiry VALUES (3, 'soon', NULL, NULL)");
  EXPECT_EQ(violated(), Rules{"WR-13"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_expiry"), 0);
}

TEST_F(Fsck, WR70_ARowOfAnItemWithoutAUuidIsReportedAndRemoved) {
  plant(
      "CREATE TABLE wr_item (ino INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL, source TEXT, "
      "fetched_at"
      " INTEGER, sha256 TEXT, mime TEXT, title TEXT, stamp TEXT);"
      "INSERT INTO wr_item (ino, id, path) VALUES (1, '0190163d-8694-739b-aea5-966c26f8ad91', '/context/disk/a');");
  EXPECT_EQ(violated(), Rules{});
  plant("INSERT INTO wr_item (ino, id, path) VALUES (3, '../../etc', '/context/disk/b')");
  EXPECT_EQ(violated(), Rules{"WR-70"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_item"), 1);
}

TEST_F(Fsck, WR40_AuditRowsThatDoNotFollowEachOtherAreReported) {
  plant(R"sql(CREATE TABLE wr_audit (seq INTEGER PRIMARY KEY, prev BLOB NOT NULL, hash BLOB NOT NULL);
      INSERT INTO wr_audit VALUES (1, zeroblob(32), x'01'), (2, x'01', x'02'))sql");
  EXPECT_EQ(violated(), Rules{});
  plant("DELETE FROM wr_audit WHERE seq = 1");
  EXPECT_EQ(violated(), Rules{"WR-40"});
  expect_not_repairable();
}

TEST_F(Fsck, WR9_DetailsWithoutACallAreReportedAndRemoved) {
  plant("INSERT INTO wr_tool_call (id) VALUES (1), (99)");
  EXPECT_EQ(violated(), Rules{"WR-9"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM wr_tool_call"), 1);
}

TEST_F(Fsck, WR10_AnInvalidQuotaIsReported) {
  plant("INSERT INTO wr_meta VALUES ('quota_bytes', 'much')");
  EXPECT_EQ(violated(), Rules{"WR-10"});
  expect_not_repairable();
}

TEST_F(Fsck, WR10_AnInvalidCountIsReportedAndCountedAgain) {
  plant("INSERT INTO wr_meta VALUES ('used_bytes', -5)");
  EXPECT_EQ(violated(), Rules{"WR-10"});
  RepairReport report = repair();
  EXPECT_TRUE(report.after.clean());
}

// The root is inode 10; /note in the namespace is inode 11.
constexpr Sql kNamespace = R"sql(
INSERT INTO fs_inode (ino, mode, nlink, size, atime, mtime, ctime) VALUES
  (10, 16877, 1, 0, 1, 1, 1), (11, 33188, 1, 0, 1, 1, 1);
INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('note', 10, 11);
INSERT INTO wr_meta VALUES ('namespace_ino', 10);
INSERT INTO wr_orphan VALUES (10, '', 0, 0, 0);
)sql";

TEST_F(Fsck, WR35_ANamespaceIsInOrderAndStaysInARepair) {
  plant(kNamespace);
  EXPECT_EQ(violated(), Rules{});
  plant("DELETE FROM fs_dentry WHERE ino = 5");
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE ino = 10"), 0);
  EXPECT_EQ(ask("SELECT value FROM wr_meta WHERE key = 'namespace_ino'"), 10);
}

TEST_F(Fsck, WR35_ARootThatIsNotKeptIsKeptAgain) {
  plant(kNamespace);
  plant("DELETE FROM wr_orphan");
  EXPECT_EQ(violated(), (Rules{"FS-11", "WR-35"}));
  expect_repaired();
  EXPECT_EQ(ask("SELECT value FROM wr_meta WHERE key = 'namespace_ino'"), 10);
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE ino = 10"), 0);
  plant("UPDATE wr_orphan SET boot = 'b', pid = 7 WHERE ino = 10");
  EXPECT_EQ(violated(), Rules{"WR-35"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT pid FROM wr_orphan WHERE ino = 10"), 0);
}

TEST_F(Fsck, WR35_WhatIsNotARootIsReportedAndForgotten) {
  for (Sql change : {Sql("INSERT OR REPLACE INTO wr_meta VALUES ('namespace_ino', 1)"),
                     Sql("INSERT OR REPLACE INTO wr_meta VALUES ('namespace_ino', 2)"),
                     Sql("INSERT OR REPLACE INTO wr_meta VALUES ('namespace_ino', 3)"),
                     Sql("INSERT OR REPLACE INTO wr_meta VALUES ('namespace_ino', 99)"),
                     Sql("INSERT OR REPLACE INTO wr_meta VALUES ('namespace_ino', 'x')")}) {
    plant(change);
    EXPECT_EQ(violated(), Rules{"WR-35"});
    expect_repaired();
    EXPECT_EQ(ask("SELECT count(*) FROM wr_meta WHERE key = 'namespace_ino'"), 0);
    EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry"), 6);
  }
}

TEST_F(Fsck, WR35_AForgottenRootIsFoundAgain) {
  plant(kNamespace);
  plant("DELETE FROM wr_meta WHERE key = 'namespace_ino'");
  EXPECT_EQ(violated(), Rules{"WR-35"});
  expect_repaired();
  EXPECT_EQ(ask("SELECT count(*) FROM fs_dentry WHERE ino = 10 AND name = '10'"), 1);
}

TEST_F(Fsck, WR35_APolicyThatOthersCouldWriteIsReported) {
  plant(kNamespace);
  plant(
      "INSERT INTO fs_inode (ino, mode, nlink, size, atime, mtime, ctime) VALUES"
      " (12, 16877, 1, 0, 1, 1, 1), (13, 33188, 1, 0, 1, 1, 1);"
      "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('policy', 10, 12), ('active.json', 12, 13)");
  EXPECT_EQ(violated(), Rules{});
  plant(
      "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('alias', 10, 13);"
      "UPDATE fs_inode SET nlink = 2 WHERE ino = 13");
  EXPECT_EQ(violated(), Rules{"WR-35"});
  expect_not_repairable();
  plant(
      "DELETE FROM fs_dentry WHERE name = 'alias';"
      "UPDATE fs_inode SET nlink = 1, mode = 41471, size = 4 WHERE ino = 13;"
      "INSERT INTO fs_symlink (ino, target) VALUES (13, 'note')");
  EXPECT_EQ(violated(), Rules{"WR-35"});
  plant(
      "DELETE FROM fs_dentry WHERE parent_ino = 12; DELETE FROM fs_symlink WHERE ino = 13;"
      "DELETE FROM fs_inode WHERE ino IN (12, 13);"
      "INSERT INTO fs_inode (ino, mode, nlink, size, atime, mtime, ctime) VALUES (12, 41471, 1, 4, 1, 1, 1);"
      "INSERT INTO fs_symlink (ino, target) VALUES (12, 'note')");
  EXPECT_EQ(violated(), Rules{"WR-35"});
}

TEST_F(Fsck, WR35_AFileInBothTreesIsReported) {
  plant(kNamespace);
  plant(
      "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('alias', 2, 11);"
      "UPDATE fs_inode SET nlink = 2 WHERE ino = 11");
  EXPECT_EQ(violated(), Rules{"WR-35"});
  expect_not_repairable();
  plant("UPDATE fs_dentry SET parent_ino = 10 WHERE name = 'alias'");
  EXPECT_EQ(violated(), Rules{});
}

TEST_F(Fsck, EverythingAtOnceIsRepairedAtOnce) {
  plant(
      "DELETE FROM fs_inode WHERE ino = 1; DELETE FROM fs_dentry WHERE ino = 2;"
      "UPDATE fs_dentry SET parent_ino = 5 WHERE ino = 6; UPDATE fs_inode SET nlink = 50, size = 10 WHERE ino = 3;"
      "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('loop', 2, 2), ('ghost', 2, 99)");
  expect_repaired();
}

}  // namespace
}  // namespace warren::testing
