#include "store/audit_log.h"

#include <algorithm>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "store/audit_check.h"
#include "store/sqlite_fs.h"
#include "store/store.h"
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
    return check_audit(store_->audit(), keys, points, store_->audit().level().take_value()).take_value();
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
  for (const char* change :
       {"at_us = at_us + 1", "agent_id = 'b'", "op = 'read'", "path = '/other'", "to_path = '/t'", "size_bytes = 11",
        "size_bytes = NULL", "ok = 0", "err = 'x'", "trace_id = 't'", "door = 'run'", "space = 'kernel'",
        "session = 's'", "end_bytes = end_bytes + 1", "prev = zeroblob(32)", "hash = zeroblob(32)"}) {
    forge("CREATE TABLE kept AS SELECT * FROM wr_audit");
    forge(std::string("UPDATE wr_audit SET ") + change + " WHERE seq = 2");
    EXPECT_THAT(fault(), HasSubstr("2: it was changed")) << change;
    forge("DELETE FROM wr_audit; INSERT INTO wr_audit SELECT * FROM kept; DROP TABLE kept");
    EXPECT_EQ(fault(), "") << change;
  }
}

TEST_F(AuditLogTest, ForgedTrailsAreFound) {
  append(5);
  forge("UPDATE wr_audit SET ok = 1 - ok WHERE seq = 3");
  EXPECT_EQ(fault(), "3: it was changed: its hash does not fit");
  forge("UPDATE wr_audit SET ok = 1 - ok WHERE seq = 3");
  forge("UPDATE wr_audit SET hash = x'' WHERE seq = 3");
  EXPECT_EQ(fault(), "3: its hash does not have 32 bytes");
}

TEST_F(AuditLogTest, ARowThatWasHashedAgainWithoutTheKeyIsFound) {
  append(3);
  AuditRow row = store_->audit().read_after(1, 1).take_value().at(0).row;
  row.event.path = "/innocent";
  HmacSha256 guess(as_bytes(std::string(32, 'x')));
  row.hash = hash_audit_row(row, guess);
  forge("UPDATE wr_audit SET path = '/innocent', hash = x'" + hex_of(row.hash) + "' WHERE seq = 2");
  EXPECT_EQ(fault(), "2: it was changed: its hash does not fit");
  // With a key of the forger's own, named as such.
  row.key = test_key('x').id;
  row.hash = hash_audit_row(row, guess);
  forge("UPDATE wr_audit SET key_id = '" + row.key + "', hash = x'" + hex_of(row.hash) + "' WHERE seq = 2");
  EXPECT_THAT(fault(), HasSubstr("2: it was made with the key"));
}

TEST_F(AuditLogTest, RemovedAndExchangedRowsAreFound) {
  append(5);
  forge("DELETE FROM wr_audit WHERE seq = 2");
  EXPECT_THAT(fault(), HasSubstr("2: row 2 is missing"));
  forge("UPDATE wr_audit SET seq = seq - 1 WHERE seq > 2");
  EXPECT_THAT(fault(), HasSubstr("2: it was changed"));
}

TEST_F(AuditLogTest, ExchangedRowsAreFound) {
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
  EXPECT_THAT(fault({test_key('k')}, {point}), HasSubstr("4: rows 4 to 5 are missing, which the anchor has seen"));
  append(4);
  EXPECT_THAT(fault({test_key('k')}, {point}), HasSubstr("5: it is not the row that the anchor has seen"));
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
  for (int i = 0; i < 10; ++i) {
    AuditEvent one = event("write", "/f");
    one.size_bytes = 5;
    AuditLog::Scope scope(store_->audit(), {one});
    ASSERT_OK(write_file(store_->fs(), "/f" + std::to_string(i), as_bytes("hello")));
  }
  ASSERT_OK(store_->database().sync());
  EXPECT_EQ(fault(), "");
  std::vector<StoredAuditRow> rows = store_->audit().read_after(0, 100).take_value();
  std::uint64_t sum = 0;
  for (const StoredAuditRow& row : rows) sum += *row.row.event.size_bytes;
  EXPECT_EQ(sum, 50U);
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
