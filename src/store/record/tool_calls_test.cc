#include "store/record/tool_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::FakeClock;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;

constexpr std::int64_t kCallStart = 1'700'000'000;
constexpr std::int64_t kCallSecond = 1'000'000'000;

CallRecord call_of(std::string_view name, std::int64_t started_at = kCallStart,
                   std::int64_t completed_at = kCallStart) {
  CallRecord call;
  call.name = name;
  call.started_at = started_at;
  call.completed_at = completed_at;
  return call;
}

CallFilter filter_of(std::optional<std::string> name, std::optional<CallStatus> status = std::nullopt,
                     std::optional<std::int64_t> since = std::nullopt, std::size_t limit = SIZE_MAX) {
  return {.name = std::move(name), .status = status, .since = since, .limit = limit};
}

class ToolCallsTest : public ::testing::Test {
 protected:
  void SetUp() override { store_ = open(OpenMode::kCreate); }

  std::unique_ptr<Store> open(OpenMode mode) {
    return Store::open(directory_.file("a.db"), {.mode = mode, .durability = Durability::kProcess}, clock_).value();
  }

  ToolCalls& tools() { return store_->tools(); }

  std::vector<std::int64_t> ids(const CallFilter& filter) {
    std::vector<std::int64_t> found;
    for (const ToolCall& call : tools().list(filter).value()) found.push_back(call.id);
    return found;
  }

  std::int64_t number(Sql sql) {
    auto guard = store_->database().lock();
    return store_->database().prepare(sql).value().find_integer().value().value();
  }

  TempDir directory_;
  FakeClock clock_{kCallStart};
  std::unique_ptr<Store> store_;
};

TEST_F(ToolCallsTest, ARecordedCallIsReadBackCompletely) {
  CallRecord call = call_of("search", kCallStart, kCallStart + 3);
  call.parameters = R"({"q": 1})";
  call.result = "[1]";
  call.duration_ns = 2'987'654'321;
  call.details = {.session = "s1", .parent_id = 7, .cost_usd = 0.25, .tokens_in = 10, .tokens_out = 20};
  std::int64_t id = tools().record(call).value();
  store_.reset();
  store_ = open(OpenMode::kReadWrite);
  ToolCall found = tools().get(id).value();
  EXPECT_EQ(found.id, id);
  EXPECT_EQ(found.name, "search");
  EXPECT_EQ(found.parameters, R"({"q": 1})");
  EXPECT_EQ(found.result, "[1]");
  EXPECT_EQ(found.error, std::nullopt);
  EXPECT_EQ(found.status, CallStatus::kSuccess);
  EXPECT_EQ(found.started_at, kCallStart);
  EXPECT_EQ(found.completed_at, kCallStart + 3);
  EXPECT_EQ(found.duration_ns, 2'987'654'321);
  EXPECT_EQ(found.details, call.details);
}

TEST_F(ToolCallsTest, TC1_ARecordHasAResultOrAnErrorAndNotBoth) {
  CallRecord call = call_of("t");
  call.result = "1";
  call.error = "no";
  EXPECT_EQ(error_of(tools().record(call)), Code::kInvalid);
  EXPECT_THAT(ids({}), IsEmpty());
  call.result = "";
  ToolCall failed = tools().get(tools().record(call).value()).value();
  EXPECT_EQ(failed.status, CallStatus::kError);
  EXPECT_EQ(failed.error, "no");
  EXPECT_EQ(failed.result, std::nullopt);
  EXPECT_EQ(number("SELECT count(*) FROM tool_calls WHERE result IS NULL AND error IS NOT NULL"), 1);
}

TEST_F(ToolCallsTest, TC1_AStartedCallEndsWithAResultOrAnError) {
  std::int64_t good = tools().start("t", std::nullopt).value();
  std::int64_t bad = tools().start("t", std::nullopt).value();
  ASSERT_OK(tools().succeed(good, "{}"));
  ASSERT_OK(tools().fail(bad, "it's \"broken\""));
  EXPECT_EQ(tools().get(good)->status, CallStatus::kSuccess);
  EXPECT_EQ(tools().get(good)->result, "{}");
  EXPECT_EQ(tools().get(good)->error, std::nullopt);
  EXPECT_EQ(tools().get(bad)->status, CallStatus::kError);
  EXPECT_EQ(tools().get(bad)->error, "it's \"broken\"") << "an error is a message, not JSON";
  EXPECT_EQ(tools().get(bad)->result, std::nullopt);
}

TEST_F(ToolCallsTest, TC2_EveryFinishedCallHasItsCompletionTime) {
  std::int64_t id = tools().start("t", std::nullopt).value();
  EXPECT_EQ(tools().get(id)->status, CallStatus::kPending);
  EXPECT_EQ(tools().get(id)->completed_at, std::nullopt);
  EXPECT_EQ(tools().get(id)->duration_ms, std::nullopt);
  clock_.advance_ns(2 * kCallSecond);
  ASSERT_OK(tools().succeed(id, std::nullopt));
  EXPECT_EQ(tools().get(id)->completed_at, kCallStart + 2);
  ASSERT_OK(tools().record(call_of("t")));
  EXPECT_EQ(number("SELECT count(*) FROM tool_calls WHERE completed_at IS NULL"), 0);
}

TEST_F(ToolCallsTest, TC3_TheDurationIsTheDifferenceOfTheTimesInMilliseconds) {
  std::int64_t recorded = tools().record(call_of("t", kCallStart, kCallStart + 3)).value();
  EXPECT_EQ(tools().get(recorded)->duration_ms, 3000);
  std::int64_t started = tools().start("t", std::nullopt).value();
  clock_.advance_ns(1'900'000'000);
  ASSERT_OK(tools().succeed(started, std::nullopt));
  EXPECT_EQ(tools().get(started)->duration_ms, 1000) << "from whole seconds, as the format wants";
  EXPECT_EQ(tools().get(started)->duration_ns, 1'900'000'000) << "as it was";
  EXPECT_EQ(number("SELECT count(*) FROM tool_calls WHERE duration_ms != (completed_at - started_at) * 1000"), 0);
}

TEST_F(ToolCallsTest, TC4_ParametersAndResultsThatAreNotJsonAreRefusedByName) {
  EXPECT_EQ(error_of(tools().start("t", "nope")), Code::kInvalid);
  CallRecord call = call_of("t");
  call.parameters = "{";
  auto refused = tools().record(call);
  EXPECT_EQ(error_of(refused), Code::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("'parameters'"));
  call.parameters = "{}";
  call.result = "nope";
  refused = tools().record(call);
  EXPECT_EQ(error_of(refused), Code::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("'result'"));
  std::int64_t id = tools().start("t", "[]").value();
  EXPECT_EQ(error_of(tools().succeed(id, "nope")), Code::kInvalid);
  EXPECT_EQ(tools().get(id)->status, CallStatus::kPending);
  EXPECT_OK(tools().succeed(id, "\"yes\""));
}

TEST_F(ToolCallsTest, TC5_AFinishedCallIsNeverChanged) {
  std::int64_t recorded = tools().record(call_of("t")).value();
  std::int64_t started = tools().start("t", std::nullopt).value();
  ASSERT_OK(tools().fail(started, "first"));
  clock_.advance_ns(kCallSecond);
  for (std::int64_t id : {recorded, started}) {
    ToolCall before = tools().get(id).value();
    EXPECT_EQ(error_of(tools().succeed(id, "1")), Code::kConflict);
    EXPECT_EQ(error_of(tools().fail(id, "second")), Code::kConflict);
    ToolCall after = tools().get(id).value();
    EXPECT_EQ(after.status, before.status);
    EXPECT_EQ(after.result, before.result);
    EXPECT_EQ(after.error, before.error);
    EXPECT_EQ(after.completed_at, before.completed_at);
    EXPECT_EQ(after.duration_ns, before.duration_ns);
  }
  EXPECT_EQ(error_of(tools().succeed(999, "1")), Code::kNotFound);
  EXPECT_EQ(error_of(tools().get(999)), Code::kNotFound);
}

TEST_F(ToolCallsTest, AFailedFinishInsideATransactionDoesNotBreakIt) {
  Transaction batch = store_->begin_write().value();
  std::int64_t id = tools().record(call_of("t")).value();
  EXPECT_EQ(error_of(tools().succeed(id, "1")), Code::kConflict);
  EXPECT_EQ(error_of(tools().fail(999, "x")), Code::kNotFound);
  ASSERT_OK(batch.commit());
  EXPECT_THAT(ids({}), ElementsAre(id));
}

TEST_F(ToolCallsTest, AFailureWithoutAMessageIsAFailure) {
  std::int64_t id = tools().start("t", std::nullopt).value();
  ASSERT_OK(tools().fail(id, ""));
  EXPECT_EQ(tools().get(id)->status, CallStatus::kError);
  EXPECT_EQ(tools().get(id)->error, std::nullopt);
  EXPECT_EQ(tools().stats_for("t").value()->failed, 1);
}

TEST_F(ToolCallsTest, ANameHasBounds) {
  EXPECT_EQ(error_of(tools().record(call_of(""))), Code::kInvalid);
  EXPECT_EQ(error_of(tools().start("", std::nullopt)), Code::kInvalid);
  EXPECT_EQ(error_of(tools().record(call_of(std::string_view("a\0b", 3)))), Code::kInvalid);
  std::string longest(limits::kToolNameBytes, 'n');
  EXPECT_OK(tools().record(call_of(longest)));
  EXPECT_EQ(error_of(tools().record(call_of(longest + "n"))), Code::kLimit);
}

TEST_F(ToolCallsTest, ACallEndsAfterItStarts) {
  auto refused = tools().record(call_of("t", kCallStart, kCallStart - 1));
  EXPECT_EQ(error_of(refused), Code::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("before it starts"));
  EXPECT_EQ(error_of(tools().record(call_of("t", INT64_MIN, INT64_MAX))), Code::kInvalid);
  EXPECT_EQ(error_of(tools().record(call_of("t", 0, INT64_MAX))), Code::kInvalid);
  CallRecord negative = call_of("t");
  negative.duration_ns = -1;
  EXPECT_EQ(error_of(tools().record(negative)), Code::kInvalid);
}

TEST_F(ToolCallsTest, AClockSetBackDuringACallGivesNoNegativeDuration) {
  std::int64_t id = tools().start("t", std::nullopt).value();
  clock_.jump_ns(-100 * kCallSecond);
  ASSERT_OK(tools().succeed(id, std::nullopt));
  EXPECT_EQ(tools().get(id)->completed_at, kCallStart);
  EXPECT_EQ(tools().get(id)->duration_ms, 0);
  EXPECT_EQ(tools().get(id)->duration_ns, std::nullopt);
}

TEST_F(ToolCallsTest, OnlyACallWithDetailsHasARowInOurTable) {
  ASSERT_OK(tools().record(call_of("t")));
  EXPECT_EQ(number("SELECT count(*) FROM wr_tool_call"), 0);
  CallRecord timed = call_of("t");
  timed.duration_ns = 0;
  ASSERT_OK(tools().record(timed));
  EXPECT_EQ(number("SELECT count(*) FROM wr_tool_call"), 1);
  CallDetails details;
  details.session = "s";
  ASSERT_OK(tools().start("t", std::nullopt, details));
  EXPECT_EQ(number("SELECT count(*) FROM wr_tool_call"), 2);
  EXPECT_EQ(tools().list(filter_of({}, CallStatus::kPending)).value().at(0).details.session, "s");
}

TEST_F(ToolCallsTest, AListIsNewestFirstAndWithinASecondLastFirst) {
  std::int64_t a = tools().record(call_of("t", kCallStart + 5, kCallStart + 5)).value();
  std::int64_t b = tools().record(call_of("t", kCallStart, kCallStart)).value();
  std::int64_t c = tools().record(call_of("t", kCallStart + 5, kCallStart + 6)).value();
  EXPECT_THAT(ids({}), ElementsAre(c, a, b));
  EXPECT_THAT(ids(filter_of("t")), ElementsAre(c, a, b));
  EXPECT_THAT(ids(filter_of({}, {}, {}, 2)), ElementsAre(c, a));
  EXPECT_THAT(ids(filter_of({}, {}, {}, 0)), IsEmpty());
}

TEST_F(ToolCallsTest, FiltersApplyBeforeTheLimit) {
  std::vector<std::int64_t> made;
  for (int i = 0; i < 12; ++i) {
    CallRecord call = call_of(i % 2 == 0 ? "even" : "odd", kCallStart + i, kCallStart + i);
    if (i % 3 == 0) call.error = "third";
    made.push_back(tools().record(call).value());
  }
  std::int64_t pending = tools().start("even", std::nullopt).value();
  EXPECT_THAT(ids(filter_of({}, CallStatus::kError, {}, 2)), ElementsAre(made[9], made[6]));
  EXPECT_THAT(ids(filter_of("even", CallStatus::kError, {}, 1)), ElementsAre(made[6]));
  EXPECT_THAT(ids(filter_of("odd", {}, {}, 2)), ElementsAre(made[11], made[9]));
  EXPECT_THAT(ids(filter_of("even", CallStatus::kSuccess, kCallStart + 4)), ElementsAre(made[10], made[8]));
  EXPECT_THAT(ids(filter_of({}, CallStatus::kPending)), ElementsAre(pending));
  EXPECT_THAT(ids(filter_of({}, {}, kCallStart + 10)), ElementsAre(made[11])) << "since is exclusive";
  EXPECT_THAT(ids(filter_of({}, {}, INT64_MAX)), IsEmpty());
  EXPECT_THAT(ids(filter_of("absent")), IsEmpty());
}

TEST_F(ToolCallsTest, StatsCountFinishedCallsMostCalledFirst) {
  for (int i = 0; i < 3; ++i) {
    CallRecord call = call_of("often", kCallStart, kCallStart + i);
    if (i == 2) call.error = "no";
    ASSERT_OK(tools().record(call));
  }
  ASSERT_OK(tools().record(call_of("b")));
  ASSERT_OK(tools().record(call_of("a")));
  ASSERT_OK(tools().start("often", std::nullopt));
  ASSERT_OK(tools().start("pending only", std::nullopt));
  std::vector<CallStats> all = tools().stats().value();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "often");
  EXPECT_EQ(all[1].name, "a");
  EXPECT_EQ(all[2].name, "b");
  CallStats often = tools().stats_for("often").value().value();
  EXPECT_EQ(often.total_calls, 3);
  EXPECT_EQ(often.successful, 2);
  EXPECT_EQ(often.failed, 1);
  EXPECT_EQ(often.avg_duration_ms, 1000.0);
  EXPECT_FALSE(tools().stats_for("pending only").value().has_value());
  EXPECT_FALSE(tools().stats_for("absent").value().has_value());
}

TEST_F(ToolCallsTest, AbsentIsNullOrEmpty) {
  ASSERT_OK(store_->database().execute(
      "INSERT INTO tool_calls (id, name, parameters, result, error, status, started_at, completed_at, duration_ms) "
      "VALUES (1, 't', '', '', '', 'success', 1, 1, 0), (2, 't', NULL, NULL, NULL, 'success', 1, 1, 0)"));
  for (std::int64_t id : {1, 2}) {
    ToolCall call = tools().get(id).value();
    EXPECT_EQ(call.parameters, std::nullopt);
    EXPECT_EQ(call.result, std::nullopt);
    EXPECT_EQ(call.error, std::nullopt);
    EXPECT_EQ(call.duration_ns, std::nullopt);
    EXPECT_EQ(call.details, CallDetails());
  }
}

TEST_F(ToolCallsTest, AnUnknownStatusIsCorruptAndTheErrorNamesTheRow) {
  ASSERT_OK(store_->database().execute(
      "INSERT INTO tool_calls (id, name, status, started_at) VALUES (41, 't', 'confused', 1)"));
  auto found = tools().get(41);
  EXPECT_EQ(error_of(found), Code::kCorrupt);
  EXPECT_THAT(found.error().message(), HasSubstr("41"));
  EXPECT_EQ(error_of(tools().list()), Code::kCorrupt);
}

// A program that follows the specification inserts without a status, whose default is 'pending'.
TEST_F(ToolCallsTest, ACompleteCallWithTheDefaultStatusIsFinished) {
  ASSERT_OK(store_->database().execute(
      "INSERT INTO tool_calls (id, name, result, error, started_at, completed_at, duration_ms) "
      "VALUES (1, 't', '1', NULL, 5, 6, 1000), (2, 't', NULL, 'no', 5, 6, 1000)"));
  EXPECT_EQ(tools().get(1)->status, CallStatus::kSuccess);
  EXPECT_EQ(tools().get(2)->status, CallStatus::kError);
  EXPECT_THAT(ids(filter_of({}, CallStatus::kPending)), IsEmpty());
  EXPECT_THAT(ids(filter_of({}, CallStatus::kError)), ElementsAre(2));
  EXPECT_EQ(tools().stats_for("t").value()->total_calls, 2);
  EXPECT_EQ(error_of(tools().succeed(1, "2")), Code::kConflict);
}

TEST_F(ToolCallsTest, AnotherStoreCanFinishACall) {
  std::unique_ptr<Store> other = open(OpenMode::kReadWrite);
  std::int64_t id = tools().start("t", std::nullopt).value();
  clock_.advance_ns(42);
  ASSERT_OK(other->tools().succeed(id, "1"));
  EXPECT_EQ(tools().get(id)->status, CallStatus::kSuccess);
  EXPECT_EQ(tools().get(id)->duration_ns, 42);
}

TEST_F(ToolCallsTest, EveryStepIsInTheJournal) {
  std::int64_t position = store_->journal()->last_seq().value();
  std::int64_t id = tools().start("t", std::nullopt).value();
  ASSERT_OK(tools().succeed(id, std::nullopt));
  std::int64_t recorded = tools().record(call_of("t")).value();
  auto rows = store_->journal()->read_after(position, 10).value().value();
  ASSERT_EQ(rows.size(), 3U);
  auto change = [](std::int64_t call) { return Change{ChangeKind::kToolCall, static_cast<std::uint64_t>(call), ""}; };
  EXPECT_THAT(rows[0].changes, ElementsAre(change(id)));
  EXPECT_THAT(rows[1].changes, ElementsAre(change(id)));
  EXPECT_THAT(rows[2].changes, ElementsAre(change(recorded)));
}

TEST_F(ToolCallsTest, AReadOnlyStoreReadsAndRefusesToWrite) {
  std::int64_t id = tools().start("t", std::nullopt).value();
  std::unique_ptr<Store> reader = open(OpenMode::kReadOnly);
  EXPECT_EQ(reader->tools().get(id)->name, "t");
  EXPECT_EQ(error_of(reader->tools().record(call_of("t"))), Code::kReadOnly);
  EXPECT_EQ(error_of(reader->tools().start("t", std::nullopt)), Code::kReadOnly);
  EXPECT_EQ(error_of(reader->tools().succeed(id, "1")), Code::kReadOnly);
}

// A file of a program that follows the specification exactly.
class SpecToolCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(directory_.file("a.db"), {.mode = OpenMode::kCreate}).value();
    ASSERT_OK(database->execute(
        "CREATE TABLE fs_inode (ino INTEGER PRIMARY KEY AUTOINCREMENT, mode INTEGER NOT NULL, "
        "nlink INTEGER NOT NULL DEFAULT 0, uid INTEGER NOT NULL DEFAULT 0, gid INTEGER NOT NULL DEFAULT 0, "
        "size INTEGER NOT NULL DEFAULT 0, atime INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, "
        "rdev INTEGER NOT NULL DEFAULT 0, atime_nsec INTEGER NOT NULL DEFAULT 0, "
        "mtime_nsec INTEGER NOT NULL DEFAULT 0, ctime_nsec INTEGER NOT NULL DEFAULT 0);"
        "CREATE TABLE fs_dentry (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, "
        "parent_ino INTEGER NOT NULL, ino INTEGER NOT NULL, UNIQUE(parent_ino, name));"
        "CREATE TABLE fs_data (ino INTEGER NOT NULL, chunk_index INTEGER NOT NULL, data BLOB NOT NULL, "
        "PRIMARY KEY (ino, chunk_index));"
        "INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime) VALUES (1, 16877, 1, 0, 0, 0);"
        "CREATE TABLE tool_calls (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, parameters TEXT, "
        "result TEXT, error TEXT, started_at INTEGER NOT NULL, completed_at INTEGER NOT NULL, "
        "duration_ms INTEGER NOT NULL);"
        "CREATE INDEX idx_tool_calls_name ON tool_calls(name);"
        "CREATE INDEX idx_tool_calls_started_at ON tool_calls(started_at);"
        "INSERT INTO tool_calls VALUES (1, 'a', '{}', '1', NULL, 10, 12, 2000), "
        "(2, 'a', NULL, NULL, 'no', 20, 21, 1000), (3, 'b', '', '', '', 30, 30, 0)"));
  }

  std::unique_ptr<Store> open(OpenMode mode) {
    return Store::open(directory_.file("a.db"), {.mode = mode}, clock_).value();
  }

  TempDir directory_;
  FakeClock clock_{kCallStart};
};

void expect_the_three_calls(ToolCalls& tools) {
  std::vector<ToolCall> all = tools.list().value();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].id, 3);
  EXPECT_EQ(all[0].status, CallStatus::kSuccess) << "an empty error is none";
  EXPECT_EQ(all[1].status, CallStatus::kError);
  EXPECT_EQ(all[1].error, "no");
  EXPECT_EQ(all[2].status, CallStatus::kSuccess);
  EXPECT_EQ(all[2].duration_ms, 2000);
  EXPECT_EQ(tools.get(2)->status, CallStatus::kError);
  EXPECT_EQ(tools.list(filter_of("a", CallStatus::kSuccess)).value().at(0).id, 1);
  EXPECT_THAT(tools.list(filter_of({}, CallStatus::kPending)).value(), IsEmpty());
  CallStats stats = tools.stats_for("a").value().value();
  EXPECT_EQ(stats.total_calls, 2);
  EXPECT_EQ(stats.successful, 1);
  EXPECT_EQ(stats.failed, 1);
  EXPECT_EQ(stats.avg_duration_ms, 1500.0);
  EXPECT_EQ(tools.stats().value().at(1).name, "b");
}

TEST_F(SpecToolCallsTest, ATableWithoutAStatusIsReadBeforeAndAfterOurTablesAreAdded) {
  expect_the_three_calls(open(OpenMode::kReadOnly)->tools());
  expect_the_three_calls(open(OpenMode::kReadWrite)->tools());
  expect_the_three_calls(open(OpenMode::kReadOnly)->tools());
}

TEST_F(SpecToolCallsTest, ATableWithoutAStatusIsAppendedTo) {
  std::unique_ptr<Store> store = open(OpenMode::kReadWrite);
  CallRecord call = call_of("c", kCallStart, kCallStart + 2);
  call.error = "boom";
  call.details.session = "s";
  std::int64_t id = store->tools().record(call).value();
  EXPECT_EQ(id, 4);
  ToolCall found = store->tools().get(id).value();
  EXPECT_EQ(found.status, CallStatus::kError);
  EXPECT_EQ(found.duration_ms, 2000);
  EXPECT_EQ(found.details.session, "s");
}

TEST_F(SpecToolCallsTest, APendingCallIsRefusedWithoutAStatusColumn) {
  std::unique_ptr<Store> store = open(OpenMode::kReadWrite);
  auto started = store->tools().start("c", std::nullopt);
  EXPECT_EQ(error_of(started), Code::kUnsupported);
  EXPECT_THAT(started.error().hint(), HasSubstr("`warren migrate`"));
  EXPECT_EQ(error_of(store->tools().succeed(1, "1")), Code::kConflict);
  EXPECT_EQ(error_of(store->tools().fail(99, "x")), Code::kNotFound);
}

TEST_F(SpecToolCallsTest, AFileWithoutATrailReadsAsAnEmptyOne) {
  {
    auto database = Database::open(directory_.file("a.db"), {}).value();
    ASSERT_OK(database->execute("DROP TABLE tool_calls"));
  }
  std::unique_ptr<Store> store = open(OpenMode::kReadOnly);
  EXPECT_THAT(store->tools().list().value(), IsEmpty());
  EXPECT_THAT(store->tools().stats().value(), IsEmpty());
  EXPECT_FALSE(store->tools().stats_for("a").value().has_value());
  EXPECT_EQ(error_of(store->tools().get(1)), Code::kNotFound);
}

}  // namespace
}  // namespace warren
