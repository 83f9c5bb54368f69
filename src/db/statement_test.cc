#include "db/statement.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "db/database.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

class StatementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Database::open(":memory:", {.mode = OpenMode::kCreate});
    ASSERT_OK(opened);
    database_ = std::move(opened).value();
    ASSERT_OK(database_->execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)"));
  }

  Statement prepare(Sql sql) { return database_->prepare(sql).value(); }

  std::unique_ptr<Database> database_;
};

TEST_F(StatementTest, ABoundValueComesBackWithItsTypeAndEveryBit) {
  Statement echo = prepare("SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7");
  std::string text("a\0\xff\n", 4);
  std::string blob("\0\x01\xfe", 3);
  echo.bind(1, std::numeric_limits<std::int64_t>::min()).bind(2, 0.1).bind(3, text).bind(4, as_bytes(blob));
  echo.bind_null(5).bind(6, std::string_view()).bind(7, Bytes());
  Rows rows = echo.rows();
  ASSERT_TRUE(rows.next().value());
  EXPECT_EQ(rows.type(0), ColumnType::kInteger);
  EXPECT_EQ(rows.integer(0), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(rows.type(1), ColumnType::kReal);
  EXPECT_EQ(rows.real(1), 0.1);
  EXPECT_EQ(rows.type(2), ColumnType::kText);
  EXPECT_EQ(rows.text(2), text);
  EXPECT_EQ(rows.type(3), ColumnType::kBlob);
  EXPECT_EQ(as_text(rows.blob(3)), blob);
  EXPECT_TRUE(rows.is_null(4));
  EXPECT_EQ(rows.type(5), ColumnType::kText) << "empty text is a value, not NULL";
  EXPECT_EQ(rows.type(6), ColumnType::kBlob) << "an empty blob is a value, not NULL";
  EXPECT_FALSE(rows.next().value());
}

TEST_F(StatementTest, ABoundLimitDoesNotCostParsingItAgain) {
  ASSERT_OK(database_->execute("INSERT INTO t (v) VALUES (1), (2), (3)"));
  Statement some = prepare("SELECT v FROM t WHERE v > ? ORDER BY v LIMIT ?");
  for (int limit = 1; limit <= 3; ++limit) {
    int got = 0;
    Rows rows = some.bind(1, 0).bind(2, limit).rows();
    while (rows.next().value()) ++got;
    EXPECT_EQ(got, limit);
  }
  EXPECT_EQ(some.times_parsed_again(), 0);
  ASSERT_OK(database_->execute("CREATE TABLE other (v)"));
  ASSERT_OK(some.bind(1, 0).bind(2, 1).run());
  EXPECT_EQ(some.times_parsed_again(), 1) << "a changed schema does, or this shows nothing";
}

TEST_F(StatementTest, AnEmptyOptionalIsBoundAsNull) {
  Statement echo = prepare("SELECT ?1, ?2");
  std::optional<std::int64_t> none;
  Rows rows = echo.bind(1, none).bind(2, std::optional<std::int64_t>(7)).rows();
  ASSERT_TRUE(rows.next().value());
  EXPECT_TRUE(rows.is_null(0));
  EXPECT_EQ(rows.integer(1), 7);
}

TEST_F(StatementTest, EachRunBindsItsOwnValues) {
  Statement insert = prepare("INSERT INTO t (v) VALUES (?)");
  for (int i = 1; i <= 3; ++i) ASSERT_OK(insert.bind(1, i).run());
  EXPECT_EQ(prepare("SELECT sum(v) FROM t").find_integer().value(), 6);
}

TEST_F(StatementTest, AFailedBindFailsTheRunAndOnlyThat) {
  Statement insert = prepare("INSERT INTO t (v) VALUES (?)");
  EXPECT_FALSE(insert.bind(1, 1).bind(9, 1).run().ok());
  EXPECT_EQ(prepare("SELECT count(*) FROM t").find_integer().value(), 0);
  EXPECT_OK(insert.bind(1, 1).run());
}

TEST_F(StatementTest, ADuplicateValueIsAConflictAndTheStatementStaysUsable) {
  Statement insert = prepare("INSERT INTO t (v) VALUES (?)");
  ASSERT_OK(insert.bind(1, "a").run());
  EXPECT_EQ(error_of(insert.bind(1, "a").run()), Code::kConflict);
  EXPECT_OK(insert.bind(1, "b").run());
}

TEST_F(StatementTest, FindIntegerIsEmptyWithoutARow) {
  Statement find = prepare("SELECT v FROM t WHERE id = ?");
  EXPECT_EQ(find.bind(1, 1).find_integer().value(), std::nullopt);
  ASSERT_OK(database_->execute("INSERT INTO t VALUES (1, 42)"));
  EXPECT_EQ(find.bind(1, 1).find_integer().value(), 42);
}

TEST_F(StatementTest, RowsReadHalfwayHoldNothingOpen) {
  ASSERT_OK(database_->execute("INSERT INTO t (v) VALUES (1), (2), (3)"));
  Statement all = prepare("SELECT v FROM t");
  {
    Rows rows = all.rows();
    ASSERT_TRUE(rows.next().value());
    EXPECT_FALSE(database_->execute("VACUUM").ok()) << "the read must be open here, or this shows nothing";
  }
  EXPECT_OK(database_->execute("VACUUM"));
}

TEST_F(StatementTest, ReadOnlyDistinguishesReadsFromWrites) {
  EXPECT_TRUE(prepare("SELECT * FROM t").read_only());
  EXPECT_FALSE(prepare("DELETE FROM t").read_only());
}

TEST_F(StatementTest, RowsKnowTheirColumns) {
  Statement query = prepare("SELECT 1 AS one, 2 AS two");
  Rows rows = query.rows();
  EXPECT_EQ(rows.column_count(), 2);
  EXPECT_EQ(rows.column_name(1), "two");
}

TEST_F(StatementTest, AMovedStatementStillWorks) {
  Statement first = prepare("SELECT ?");
  Statement second = std::move(first);
  Statement third;
  third = std::move(second);
  EXPECT_EQ(third.bind(1, 5).find_integer().value(), 5);
}

TEST_F(StatementTest, UserSqlMustBeExactlyOneStatement) {
  EXPECT_OK(database_->prepare(UserSql{"SELECT 1"}));
  EXPECT_OK(database_->prepare(UserSql{"SELECT 1 ; ;\n -- and that was it"}));
  EXPECT_EQ(error_of(database_->prepare(UserSql{"SELECT 1; SELECT 2"})), Code::kInvalid);
  EXPECT_EQ(error_of(database_->prepare(UserSql{"SELECT 1; /* and */ DELETE FROM t"})), Code::kInvalid);
  EXPECT_EQ(error_of(database_->prepare(UserSql{"SELECT 1; nonsense"})), Code::kInvalid);
  EXPECT_EQ(error_of(database_->prepare(UserSql{"SELEKT 1"})), Code::kInvalid);
  EXPECT_EQ(error_of(database_->prepare(UserSql{" -- nothing"})), Code::kInvalid);
  EXPECT_EQ(error_of(database_->prepare(UserSql{std::string_view("SELECT 1;\0DELETE FROM t", 23)})), Code::kInvalid);
}

}  // namespace
}  // namespace warren
