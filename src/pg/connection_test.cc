#include "pg/connection.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::pg {
namespace {

using ::warren::testing::error_of;

TEST(CleanText, LeavesWhatPostgresKeepsAlone) {
  for (const char* text :
       {"", "plain", "Grüße", "\xE2\x82\xAC", "\xF0\x9F\x90\x87", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(clean_text(text), std::nullopt) << text;
  }
}

TEST(CleanText, ReplacesEachByteThatIsNoText) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(clean_text(std::string_view("a\0b", 3)), "a" + mark + "b");
  EXPECT_EQ(clean_text("\xFF"), mark);
  EXPECT_EQ(clean_text("x\xC0\x80y"), "x" + mark + mark + "y");          // overlong
  EXPECT_EQ(clean_text("\xED\xA0\x80"), mark + mark + mark);             // half of a pair
  EXPECT_EQ(clean_text("\xF4\x90\x80\x80"), mark + mark + mark + mark);  // beyond the last one
  EXPECT_EQ(clean_text("ok \xE2\x82"), "ok " + mark + mark);             // cut off
}

TEST(PostgresUrl, IsToldFromAFile) {
  EXPECT_TRUE(is_postgres_url("postgres://user@host/db"));
  EXPECT_TRUE(is_postgres_url("postgresql:///db?host=/run"));
  EXPECT_FALSE(is_postgres_url("/home/ledger.db"));
  EXPECT_FALSE(is_postgres_url("mysql://host/db"));
}

TEST(PostgresUrl, ABadOneIsRefusedWithoutBeingQuoted) {
  EXPECT_OK(check_postgres_url("postgres://user@host:5432/db"));
  for (const char* bad :
       {"host=/run", "postgres://user:geheim@[host/db", "postgres://user:geheim@host/db?nonsense=1"}) {
    Status checked = check_postgres_url(bad);
    ASSERT_EQ(error_of(checked), Code::kInvalid) << bad;
    EXPECT_EQ(checked.error().message().find("geheim"), std::string::npos);
  }
}

TEST(Connection, AServerThatIsNotThereIsUnavailable) {
  auto connection = Connection::open("postgres://user@/db?host=/nonexistent", {});
  EXPECT_EQ(error_of(connection), Code::kUnavailable);
}

}  // namespace
}  // namespace warren::pg
