#include "store/record/audit_log.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/side_change.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/record/audit_check.h"
#include "store/record/tool_calls.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

AuditKey test_key(char fill) { return make_audit_key(std::string(32, fill)); }
LoadAuditKeys with_keys(AuditKeys keys) {
  return [keys = std::move(keys)]() -> Result<AuditKeys> { return keys; };
}

AuditEvent event(std::string op, std::string path) {
  AuditEvent made;
  made.at_us = 1'700'000'000'000'000;
  made.agent = "a";
  made.op = std::move(op);
  made.path = std::move(path);
  made.door = "test";
  made.space = "user";
  return made;
}

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() { store_ = open(OpenMode::kCreate, {test_key('k')}); }

  std::unique_ptr<Store> open(OpenMode mode, AuditKeys keys, Commits commits = Commits::kEach) {
    StoreOptions options{.mode = mode, .durability = Durability::kProcess, .commits = commits};
    auto store = Store::open(path_, options, clock_).take_value();
    EXPECT_OK(store->audit().enable(with_keys(std::move(keys))));
    return store;
  }
  void append(int count, Store* store = nullptr) {
    for (int i = 1; i <= count; ++i) {
      AuditEvent one = event("write", "/f" + std::to_string(i));
      one.size_bytes = 10;
      EXPECT_OK((store != nullptr ? store : store_.get())->audit().append({one}));
    }
  }
  AuditVerdict check(AuditKeys keys = {test_key('k')}, const std::vector<AuditPoint>& points = {}) {
    return check_audit(store_->audit(), keys, points).take_value();
  }
  std::string fault(AuditKeys keys = {test_key('k')}, const std::vector<AuditPoint>& points = {}) {
    AuditVerdict verdict = check(std::move(keys), points);
    return verdict.fault ? std::to_string(verdict.fault->seq) + ": " + verdict.fault->why : "";
  }
  // As sqlite3 would, on a connection of its own.
  void forge(const std::string& sql) {
    auto database = Database::open(path_, {.mode = OpenMode::kReadWrite}).take_value();
    for (std::size_t at = 0; at < sql.size();) {
      std::size_t end = std::min(sql.find(';', at), sql.size());
      Result<Statement> statement = database->prepare(UserSql{std::string_view(sql).substr(at, end - at)});
      ASSERT_OK(statement);
      ASSERT_OK(statement->run());
      at = end + 1;
    }
  }
  std::vector<std::string> ops(Store* store = nullptr) {
    std::vector<std::string> all;
    for (const StoredAuditRow& one :
         (store != nullptr ? store : store_.get())->audit().read_after(0, 1000).take_value())
      all.push_back(one.row.event.op + " " + one.row.event.path);
    return all;
  }

  testing::TempDir dir_;
  std::string path_ = dir_.file("a.db");
  testing::FakeClock clock_;
  std::unique_ptr<Store> store_;
};

TEST_F(AuditLogTest, WR40_RowsAreNumberedAndChained) {
  append(3);
  std::vector<StoredAuditRow> rows = store_->audit().read_after(0, 10).take_value();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].row.prev, AuditHash{});
  EXPECT_EQ(rows[1].row.prev, rows[0].row.hash);
  EXPECT_EQ(rows[2].row.seq, 3);
  EXPECT_EQ(fault(), "");
}

TEST_F(AuditLogTest, WR41_TheHashCoversEveryField) {
  append(3);
  for (const char* change : {"at_us = at_us + 1",
                             "agent_id = 'b'",
                             "op = 'read'",
                             "path = '/other'",
                             "to_path = '/t'",
                             "size_bytes = 11",
                             "size_bytes = NULL",
                             "ok = 0",
                             "err = 'x'",
                             "trace_id = 't'",
                             "door = 'run'",
                             "space = 'kernel'",
                             "session = 's'",
                             "key_id = 'other'",
                             "err = ''",
                             "trace_id = ''",
                             "session = ''",
                             "end_bytes = end_bytes + 1",
                             "prev = zeroblob(32)",
                             "hash = zeroblob(32)"}) {
    forge("CREATE TABLE kept AS SELECT * FROM wr_audit");
    forge(std::string("UPDATE wr_audit SET ") + change + " WHERE seq = 2");
    EXPECT_THAT(fault(), ::testing::StartsWith("2: it ")) << change;
    forge("DELETE FROM wr_audit; INSERT INTO wr_audit SELECT * FROM kept; DROP TABLE kept");
    EXPECT_EQ(fault(), "") << change;
  }
}

TEST_F(AuditLogTest, ForgedTrailsAreFound) {
  append(5);
  forge("UPDATE wr_audit SET ok = 1 - ok WHERE seq = 3");
  EXPECT_EQ(fault(), "3: it was changed: its hash does not match");
  forge("UPDATE wr_audit SET ok = 1 - ok WHERE seq = 3");
  forge("UPDATE wr_audit SET hash = x'' WHERE seq = 3");
  EXPECT_EQ(fault(), "3: its hash does not have 32 bytes");
}

TEST_F(AuditLogTest, AHashThatWasNulledIsFound) {
  append(3);
  forge(
      "CREATE TABLE other AS SELECT * FROM wr_audit; DROP TABLE wr_audit; ALTER TABLE other RENAME TO wr_audit;"
      "UPDATE wr_audit SET hash = NULL WHERE seq = 2");
  store_.reset();
  store_ = Store::open(path_, {.mode = OpenMode::kReadOnly}, clock_).take_value();
  EXPECT_EQ(fault(), "2: its hash is missing");
}

TEST_F(AuditLogTest, ARowThatWasHashedAgainWithoutTheKeyIsFound) {
  append(3);
  AuditRow row = store_->audit().read_after(1, 1).take_value().at(0).row;
  row.event.path = "/innocent";
  HmacSha256 guess(as_bytes(std::string(32, 'x')));
  row.hash = hash_audit_row(row, guess);
  forge("UPDATE wr_audit SET path = '/innocent', hash = x'" + hex_of(row.hash) + "' WHERE seq = 2");
  EXPECT_EQ(fault(), "2: it was changed: its hash does not match");
  // With a key of the forger's own, named as such.
  row.key = test_key('x').id;
  row.hash = hash_audit_row(row, guess);
  forge("UPDATE wr_audit SET key_id = '" + row.key + "', hash = x'" + hex_of(row.hash) + "' WHERE seq = 2");
  EXPECT_THAT(fault(), HasSubstr("2: it was made with the key"));
}

TEST_F(AuditLogTest, RemovedAndRenumberedRowsAreFound) {
  append(5);
  forge("DELETE FROM wr_audit WHERE seq = 2");
  EXPECT_THAT(fault(), HasSubstr("2: it is missing"));
  forge("UPDATE wr_audit SET seq = seq - 1 WHERE seq > 2");
  EXPECT_THAT(fault(), HasSubstr("2: it was changed"));
}

TEST_F(AuditLogTest, SwappedRowsAreFound) {
  append(4);
  forge(
      "UPDATE wr_audit SET seq = -2 WHERE seq = 2; UPDATE wr_audit SET seq = 2 WHERE seq = 3;"
      "UPDATE wr_audit SET seq = 3 WHERE seq = -2");
  EXPECT_THAT(fault(), HasSubstr("2: it was changed"));
}

TEST_F(AuditLogTest, ACutTailAndAnOlderCopyAreFoundByAPoint) {
  append(5);
  AuditHead head = store_->audit().head().take_value();
  AuditPoint point{.seq = head.seq, .hash = head.hash, .where = "the anchor"};
  EXPECT_EQ(fault({test_key('k')}, {point}), "");
  forge("DELETE FROM wr_audit WHERE seq > 3");
  EXPECT_EQ(fault(), "");  // nobody remembers
  EXPECT_THAT(fault({test_key('k')}, {point}),
              HasSubstr("4: it is missing, with all rows up to row 5, although the anchor recorded them"));
  store_ = open(OpenMode::kReadWrite, {test_key('k')});  // which has not seen them
  append(4);
  EXPECT_THAT(fault({test_key('k')}, {point}), HasSubstr("5: it is not the row that the anchor has seen"));
}

TEST_F(AuditLogTest, WhoWroteARowDoesNotSignThatItWasNeverThere) {
  append(3);
  forge("DELETE FROM wr_audit WHERE seq = 3");
  append(1);
  EXPECT_THAT(fault(), HasSubstr("3: it is missing"));
}

TEST_F(AuditLogTest, NorThatAnotherWasThereInstead) {
  append(3);
  forge("DELETE FROM wr_audit WHERE seq = 3");
  auto other = open(OpenMode::kReadWrite, {test_key('k')});
  append(2, other.get());
  EXPECT_EQ(fault(), "");
  append(1);
  EXPECT_THAT(fault(), HasSubstr("5: it "));
}

TEST_F(AuditLogTest, ATriggerOnAnotherTableRemovesNothingUnseen) {
  {
    auto database = Database::open(path_, {.mode = OpenMode::kReadWrite}).take_value();
    ASSERT_OK(database->execute(
        "CREATE TRIGGER t AFTER INSERT ON kv_store BEGIN DELETE FROM wr_audit WHERE path = '/f2'; END"));
  }
  append(2);
  ASSERT_OK(store_->kv().set("k", "1"));
  append(1);
  EXPECT_THAT(fault(), HasSubstr("2: it is missing"));
  store_.reset();
  auto again = Store::open(path_, {.durability = Durability::kProcess}, clock_).take_value();
  EXPECT_EQ(error_of(again->audit().enable(with_keys({test_key('k')}))), Code::kCorrupt);
}

TEST_F(AuditLogTest, ALostOrWrongKeyIsNamed) {
  append(2);
  EXPECT_THAT(fault({test_key('w')}), HasSubstr("1: it was made with the key '" + test_key('k').id + "'"));
  EXPECT_THAT(fault({}), HasSubstr("1: it was made with the key"));
}

TEST_F(AuditLogTest, WR42_AKeyThatChangesIsAnEventUnderTheOldKey) {
  append(1);
  store_ = open(OpenMode::kReadWrite, {test_key('m'), test_key('k')});
  append(1);
  store_ = open(OpenMode::kReadWrite, {test_key('n'), test_key('m'), test_key('k')});
  append(1);
  EXPECT_THAT(ops(), ::testing::ElementsAre("write /f1", "key " + test_key('m').id, "write /f1",
                                            "key " + test_key('n').id, "write /f1"));
  std::vector<StoredAuditRow> rows = store_->audit().read_after(0, 10).take_value();
  EXPECT_EQ(rows[1].row.key, test_key('k').id);
  EXPECT_EQ(rows[3].row.key, test_key('m').id);
  EXPECT_EQ(fault({test_key('n'), test_key('m'), test_key('k')}), "");
  EXPECT_THAT(fault({test_key('n')}), HasSubstr("1: it was made with the key"));
}

TEST_F(AuditLogTest, WithoutTheOldKeyTheTrailGoesOnAndSaysSo) {
  append(1);
  store_ = open(OpenMode::kReadWrite, {test_key('m')});
  append(1);
  std::vector<StoredAuditRow> rows = store_->audit().read_after(0, 10).take_value();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].row.event.err, "old_key_missing");
  EXPECT_FALSE(rows[1].row.event.ok);
  EXPECT_EQ(fault({test_key('m'), test_key('k')}), "");
}

TEST_F(AuditLogTest, TheSwitchIsAnEventAndMustFitTheLastOne) {
  ASSERT_OK(store_->audit().set_level(AuditLevel::kOn, event("audit", "on")));
  EXPECT_EQ(store_->audit().level().take_value(), AuditLevel::kOn);
  EXPECT_EQ(fault(), "");
  forge("UPDATE wr_meta SET value = 1 WHERE key = 'audit'");
  EXPECT_EQ(fault(), "1: the switch says 'off', but the last event about it says 'on'");
}

TEST_F(AuditLogTest, AnEventAndItsChangeAreCommittedTogether) {
  {
    AuditLog::Scope scope(store_->audit(), {event("create", "/kept")});
    ASSERT_OK(make_dir(store_->fs(), "/kept"));
    EXPECT_TRUE(scope.is_taken());
  }
  {
    AuditLog::Scope scope(store_->audit(), {event("create", "/dropped")});
    auto unit = store_->fs().begin(UnitAccess::kWrite).take_value();
    ASSERT_OK(make_dir(store_->fs(), "/dropped"));
    EXPECT_FALSE(scope.is_taken());
  }
  EXPECT_THAT(ops(), ::testing::ElementsAre("create /kept"));
}

TEST_F(AuditLogTest, InABatchEventsAreWrittenWithIt) {
  store_ = open(OpenMode::kReadWrite, {test_key('k')}, Commits::kGrouped);
  Inode file = store_->fs().make_node(kRootInode, "f", {.mode = S_IFREG | 0644}).take_value().inode;
  for (int i = 0; i < 10; ++i) {
    AuditEvent one = event("write", "/f");
    one.size_bytes = 5;
    AuditLog::Scope scope(store_->audit(), {one});
    ASSERT_OK(store_->fs().write(file, 0, as_bytes("hello")));
    EXPECT_TRUE(scope.is_taken());
  }
  {
    auto guard = store_->database().lock();
    EXPECT_TRUE(store_->database().batch().is_open());
    EXPECT_TRUE(ops().empty());
  }
  ASSERT_OK(store_->database().sync());
  EXPECT_EQ(fault(), "");
  std::vector<StoredAuditRow> rows = store_->audit().read_after(0, 100).take_value();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].row.event.size_bytes, 50U);
}

TEST_F(AuditLogTest, RefusalsSurviveALostBatchAndItsChangesDoNot) {
  store_ = open(OpenMode::kReadWrite, {test_key('k')}, Commits::kGrouped);
  AuditEvent refused = event("read", "/policy/x");
  refused.ok = false;
  refused.err = "permission_denied";
  {
    auto guard = store_->database().lock();
    {
      AuditLog::Scope scope(store_->audit(), {event("create", "/f")});
      ASSERT_OK(store_->fs().make_node(kRootInode, "f", {.mode = S_IFREG | 0644}));
    }
    ASSERT_OK(store_->audit().append({refused}));
    ASSERT_OK(store_->audit().append({refused}));  // the same one again is not another event
    ASSERT_TRUE(store_->database().batch().is_open());
    store_->audit().after_rollback();
    store_->database().abandon_batch();
  }
  append(1);
  ASSERT_OK(store_->database().sync());
  EXPECT_THAT(ops(), ::testing::ElementsAre("read /policy/x", "write /f1"));
  EXPECT_EQ(fault(), "");
}

TEST_F(AuditLogTest, WhatOnlyPreparesAnOperationDoesNotTakeItsEvent) {
  AuditLog::Scope scope(store_->audit(), {event("delete", "/d")});
  {
    SideChange prepares;
    ASSERT_OK(make_dir(store_->fs(), "/d"));
  }
  EXPECT_FALSE(scope.is_taken());
  EXPECT_TRUE(ops().empty());
}

TEST_F(AuditLogTest, AKeyThatWasReplacedIsNotAcceptedAgain) {
  append(1);
  store_ = open(OpenMode::kReadWrite, {test_key('m'), test_key('k')});
  append(1);
  AuditKeys both{test_key('m'), test_key('k')};
  EXPECT_EQ(fault(both), "");
  // Whoever has found out the old key adds a row.
  store_ = open(OpenMode::kReadWrite, {test_key('k'), test_key('m')});
  append(1);
  EXPECT_THAT(fault(both), HasSubstr("5: it was made with the key '" + test_key('k').id + "', which was replaced"));
}

TEST_F(AuditLogTest, AnotherKeyWithoutAnEventAboutItIsFound) {
  append(1);
  AuditRow row = store_->audit().read_after(0, 1).take_value().at(0).row;
  row.seq = 2;
  row.prev = row.hash;
  row.end_bytes *= 2;
  row.key = test_key('m').id;
  HmacSha256 other(as_bytes(std::string(32, 'm')));
  row.hash = hash_audit_row(row, other);
  forge(
      "INSERT INTO wr_audit SELECT 2, at_us, agent_id, op, path, to_path, size_bytes, ok, err, trace_id, door, space,"
      " session, end_bytes * 2, '" +
      row.key + "', hash, x'" + hex_of(row.hash) + "' FROM wr_audit");
  EXPECT_THAT(fault({test_key('m'), test_key('k')}), HasSubstr("2: its key '" + row.key + "' is another than before"));
}

TEST_F(AuditLogTest, TheRowsBeforeOneCanBeTakenForGranted) {
  append(1);
  store_ = open(OpenMode::kReadWrite, {test_key('m')});
  append(2);
  EXPECT_THAT(fault({test_key('m')}), HasSubstr("1: it was made with the key"));
  AuditVerdict rest = check_audit(store_->audit(), {test_key('m')}, {}, 2).take_value();
  EXPECT_FALSE(rest.fault) << rest.fault->why;
  EXPECT_EQ(rest.rows, 3);
  EXPECT_EQ(error_of(check_audit(store_->audit(), {test_key('m')}, {}, 9)), Code::kNotFound);
}

TEST_F(AuditLogTest, AnUnknownValueOfTheSwitchRecordsEverythingAndIsAFault) {
  forge("INSERT OR REPLACE INTO wr_meta (key, value) VALUES ('audit', 9)");
  EXPECT_EQ(store_->audit().level().take_value(), AuditLevel::kReads);
  EXPECT_THAT(fault(), HasSubstr("the switch says"));
  ASSERT_OK(store_->audit().set_level(AuditLevel::kReads, event("audit", "reads")));
  forge("UPDATE wr_meta SET value = 9 WHERE key = 'audit'");
  EXPECT_THAT(fault(), HasSubstr("a value that Warren does not know"));
}

TEST_F(AuditLogTest, ATableThatIsNotOursIsRefusedBeforeAnythingIsDone) {
  append(1);
  store_.reset();
  auto enabled = [&] {
    auto store = Store::open(path_, {.durability = Durability::kProcess}, clock_).take_value();
    return error_of(store->audit().enable(with_keys({test_key('k')})));
  };
  forge(
      "INSERT INTO wr_audit SELECT 9223372036854775807, at_us, agent_id, op, path, to_path, size_bytes, ok, err,"
      " trace_id, door, space, session, end_bytes, key_id, prev, hash FROM wr_audit");
  EXPECT_EQ(enabled(), Code::kCorrupt);
  forge("DELETE FROM wr_audit WHERE seq > 1");
  {
    auto database = Database::open(path_, {.mode = OpenMode::kReadWrite}).take_value();
    ASSERT_OK(database->execute("CREATE TRIGGER t BEFORE INSERT ON wr_audit BEGIN SELECT RAISE(IGNORE); END"));
  }
  EXPECT_EQ(enabled(), Code::kCorrupt);
  forge("DROP TRIGGER t; CREATE UNIQUE INDEX i ON wr_audit(op)");
  EXPECT_EQ(enabled(), Code::kCorrupt);
  forge("DROP INDEX i; DROP TABLE wr_audit; CREATE VIEW wr_audit AS SELECT 1");
  EXPECT_EQ(enabled(), Code::kCorrupt);
  forge("DROP VIEW wr_audit; CREATE TABLE WR_AUDIT (seq INTEGER)");
  EXPECT_EQ(enabled(), Code::kCorrupt);
}

TEST_F(AuditLogTest, ATableThatSomebodyDropsMeanwhileCostsNoChange) {
  store_ = open(OpenMode::kReadWrite, {test_key('k')}, Commits::kGrouped);
  append(2);
  ASSERT_OK(store_->database().sync());
  forge("DROP TABLE wr_audit");
  {
    AuditLog::Scope scope(store_->audit(), {event("mkdir", "/d")});
    ASSERT_OK(store_->fs().make_dir(kRootInode, "d", {.mode = S_IFDIR | 0755}));
  }
  ASSERT_OK(store_->database().sync());
  EXPECT_THAT(ops(), ::testing::ElementsAre("mkdir /d"));
  ASSERT_OK(lstat(store_->fs(), "/d"));
}

TEST_F(AuditLogTest, KeysAndToolCallsAreRecordedForTheirUser) {
  ASSERT_OK(store_->kv().set("before", "1"));
  EXPECT_TRUE(ops().empty());
  store_->audit().set_source({.agent = "a", .door = "kv", .space = "kernel", .session = {}, .trace = {}});
  ASSERT_OK(store_->kv().set("k", "[1]"));
  ASSERT_OK(store_->kv().get("k"));  // reads are not recorded
  EXPECT_EQ(error_of(store_->kv().compare_and_set("k", "2", "3")), Code::kConflict);
  EXPECT_EQ(error_of(store_->kv().set("k", "not json")), Code::kInvalid);
  ASSERT_OK(store_->kv().remove("k"));
  ASSERT_OK(store_->kv().set("soon", "1", std::chrono::milliseconds(10)));
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(store_->kv().purge_expired());
  std::int64_t call = store_->tools().start("search", std::nullopt).take_value();
  ASSERT_OK(store_->tools().fail(call, "no network"));
  ASSERT_OK(store_->tools().record(
      {.name = "read_file", .parameters = {}, .result = {}, .error = {}, .duration_ns = {}, .details = {}}));
  EXPECT_THAT(ops(),
              ::testing::ElementsAre("kv_set k", "kv_set k", "kv_set k", "kv_delete k", "kv_set soon", "kv_expire soon",
                                     "tool_start search", "tool_end search", "tool_end read_file"));
  std::vector<StoredAuditRow> rows = store_->audit().read_after(0, 100).take_value();
  EXPECT_EQ(rows[0].row.event.size_bytes, 3U);
  EXPECT_EQ(rows[1].row.event.err, "conflict");
  EXPECT_EQ(rows[2].row.event.err, "invalid");
  EXPECT_EQ(rows[7].row.event.err, "tool_failed");
  EXPECT_EQ(fault(), "");
}

TEST_F(AuditLogTest, ReadsOfKeysAndToolCallsAreRecordedWhereTheyAreToBe) {
  ASSERT_OK(store_->kv().set("k", "1"));
  store_->audit().set_source(
      {.agent = "a", .door = "kv", .space = "kernel", .session = {}, .trace = {}, .records_reads = true});
  ASSERT_OK(store_->kv().get("k"));
  ASSERT_OK(store_->kv().list({.prefix = "k", .after = {}}));
  ASSERT_OK(store_->tools().list());
  ASSERT_OK(store_->audit().flush());
  EXPECT_THAT(ops(), ::testing::ElementsAre("kv_get k", "kv_list k", "tool_list "));
}

TEST_F(AuditLogTest, WhatIsDeferredIsStoredWithoutAnotherCall) {
  ASSERT_OK(store_->audit().defer({event("read", "/r")}));
  for (int i = 0; i < 600 && ops().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(ops(), ::testing::ElementsAre("read /r"));
}

TEST_F(AuditLogTest, DeferredEventsComeWithTheNextChangeAndSurviveItsFailure) {
  ASSERT_OK(store_->audit().defer({event("read", "/r")}));
  EXPECT_TRUE(ops().empty());
  {
    auto change = store_->begin_write().take_value();
    ASSERT_OK(make_dir(store_->fs(), "/x"));
  }
  append(1);
  EXPECT_THAT(ops(), ::testing::ElementsAre("read /r", "write /f1"));
  ASSERT_OK(store_->audit().defer({event("read", "/r2")}));
  ASSERT_OK(store_->audit().flush());
  EXPECT_EQ(ops().size(), 3U);
}

TEST_F(AuditLogTest, ClosingStoresWhatIsDeferred) {
  ASSERT_OK(store_->audit().defer({event("read", "/r")}));
  store_.reset();
  store_ = open(OpenMode::kReadWrite, {test_key('k')});
  EXPECT_THAT(ops(), ::testing::ElementsAre("read /r"));
}

TEST_F(AuditLogTest, LinesCanBeReadFromAnyOffset) {
  append(700);
  std::string all = store_->audit().read_lines(0, 10'000'000).take_value();
  EXPECT_EQ(all.size(), store_->audit().head().take_value().end_bytes);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 700);
  for (std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, all.size() - 1, all.size()}) {
    EXPECT_EQ(store_->audit().read_lines(offset, 3000).take_value(), all.substr(offset, 3000)) << offset;
  }
}

TEST_F(AuditLogTest, ALineShowsBytesThatAreNotText) {
  AuditRow row;
  row.event = event("write", std::string("/a\"\xff\n", 5));
  std::string line = audit_line(row);
  EXPECT_THAT(line, HasSubstr("\"path\":\"/a\\\"\xef\xbf\xbd\\u000a\""));
  EXPECT_THAT(line, HasSubstr("\"path_hex\":\"2f6122ff0a\""));
  for (std::int64_t at_us : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, INT64_MAX}) {
    row.event.at_us = at_us;
    EXPECT_EQ(audit_line_bytes(row), audit_line(row).size());
  }
  row.event.at_us = 1'700'000'000'000'000;
  EXPECT_THAT(line, HasSubstr("{\"ts\":\"2023-11-14T22:13:20.000000Z\""));
}

TEST_F(AuditLogTest, SeveralProcessesAppendToOneChain) {
  store_.reset();
  constexpr int kProcesses = 4;
  constexpr int kEach = 40;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    pid_t child = ::fork();
    if (child == 0) {
      bool is_fine = false;
      {
        SystemClock clock;
        auto store =
            Store::open(
                path_, {.durability = Durability::kProcess, .commits = i % 2 == 0 ? Commits::kEach : Commits::kGrouped},
                clock)
                .take_value();
        is_fine = store->audit().enable(with_keys({test_key('k')})).ok();
        for (int n = 0; n < kEach; ++n) {
          is_fine = store->audit().append({event("read", "/p" + std::to_string(i))}).ok() && is_fine;
        }
        is_fine = store->close().ok() && is_fine;
      }
      ::_exit(is_fine ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  store_ = open(OpenMode::kReadWrite, {test_key('k')});
  AuditVerdict verdict = check();
  EXPECT_EQ(verdict.rows, kProcesses * kEach);
  EXPECT_FALSE(verdict.fault) << verdict.fault->why;
}

TEST_F(AuditLogTest, AReadOnlyAgentShowsItsTrailAndRecordsNothing) {
  append(2);
  store_.reset();
  store_ = Store::open(path_, {.mode = OpenMode::kReadOnly}, clock_).take_value();
  EXPECT_EQ(error_of(store_->audit().enable(with_keys({test_key('k')}))), Code::kReadOnly);
  EXPECT_EQ(ops().size(), 2U);
  EXPECT_EQ(fault(), "");
}

}  // namespace
}  // namespace warren
