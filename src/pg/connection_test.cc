#include "pg/connection.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::pg {
namespace {

using ::warren::testing::error_of;

TEST(CleanText, KeepsTextThatPostgresAccepts) {
  for (const char* text :
       {"", "plain", "Grüße", "\xE2\x82\xAC", "\xF0\x9F\x90\x87", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(clean_text(text), std::nullopt) << text;
  }
}

TEST(CleanText, ReplacesEachByteThatPostgresRejects) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(clean_text(std::string_view("a\0b", 3)), "a" + mark + "b");
  EXPECT_EQ(clean_text("\xFF"), mark);
  EXPECT_EQ(clean_text("x\xC0\x80y"), "x" + mark + mark + "y");          // overlong
  EXPECT_EQ(clean_text("\xED\xA0\x80"), mark + mark + mark);             // half of a pair
  EXPECT_EQ(clean_text("\xF4\x90\x80\x80"), mark + mark + mark + mark);  // beyond the last one
  EXPECT_EQ(clean_text("ok \xE2\x82"), "ok " + mark + mark);             // cut off
}

TEST(PostgresUrl, IsDistinguishedFromAFile) {
  EXPECT_TRUE(is_postgres_url("postgres://user@host/db"));
  EXPECT_TRUE(is_postgres_url("postgresql:///db?host=/run"));
  EXPECT_FALSE(is_postgres_url("/home/ledger.db"));
  EXPECT_FALSE(is_postgres_url("mysql://host/db"));
}

TEST(PostgresUrl, AnInvalidUrlIsRefusedWithoutRepeatingItInTheMessage) {
  EXPECT_OK(check_postgres_url("postgres://user@host:5432/db"));
  for (const char* bad :
       {"host=/run", "postgres://user:geheim@[host/db", "postgres://user:geheim@host/db?nonsense=1"}) {
    Status checked = check_postgres_url(bad);
    ASSERT_EQ(error_of(checked), Code::kInvalid) << bad;
    EXPECT_EQ(checked.error().message().find("geheim"), std::string::npos);
  }
}

TEST(Connection, AMissingServerIsUnavailable) {
  auto connection = Connection::open("postgres://user@/db?host=/nonexistent", {});
  EXPECT_EQ(error_of(connection), Code::kUnavailable);
}

TEST(ConnectError, DistinguishesTemporaryFromPermanentErrors) {
  struct Row {
    const char* said;
    Code code;
  };
  const Row rows[] = {
      {"connection to server at \"db\" (10.0.0.1), port 5432 failed: Connection refused\n\tIs the server running on "
       "that"
       " host and accepting TCP/IP connections?\n",
       Code::kUnavailable},
      {"could not translate host name \"db\" to address: Temporary failure in name resolution\n", Code::kUnavailable},
      {"connection to server on socket \"/s\" failed: FATAL:  57P03: the database system is starting up\nLOCATION:  "
       "ProcessStartupPacket, postmaster.c:2362\n",
       Code::kUnavailable},
      {"connection to server at \"db\", port 5432 failed: FATAL:  53300: sorry, too many clients already\n",
       Code::kUnavailable},
      {"connection to server at \"db\", port 5432 failed: SSL SYSCALL error: EOF detected\n", Code::kUnavailable},
      {"connection to server at \"db\", port 5432 failed: server closed the connection unexpectedly\n",
       Code::kUnavailable},
      {"connection to server at \"db\", port 5432 failed: FATAL:  28P01: password authentication failed for user"
       " \"relay\"\nLOCATION:  auth_failed, auth.c:326\n",
       Code::kDenied},
      {"connection to server at \"db\", port 5432 failed: FATAL:  28000: no pg_hba.conf entry for host\n",
       Code::kDenied},
      {"connection to server at \"db\", port 5432 failed: FATAL:  3D000: database \"x\" does not exist\n",
       Code::kNotFound},
      {"connection to server at \"db\" (::1), port 5432 failed: Connection refused\nconnection to server at \"db\""
       " (127.0.0.1), port 5432 failed: FATAL:  3D000: database \"x\" does not exist\n",
       Code::kNotFound},
      {"connection to server at \"db\", port 5432 failed: server does not support SSL, but SSL was required\n",
       Code::kDenied},
      {"connection to server at \"db\", port 5432 failed: SSL error: certificate verify failed\n", Code::kDenied},
      {"invalid integer value \"x\" for connection option \"port\"\n", Code::kInvalid},
      {"connection to server at \"db\", port 5432 failed: fe_sendauth: no password supplied\n", Code::kDenied},
  };
  for (const Row& row : rows) EXPECT_EQ(connect_error(row.said).code(), row.code) << row.said;
}

TEST(ConnectError, IsOneLineWithoutErrorCodesAndSourceLocations) {
  Error error = connect_error("it failed: FATAL:  28P01: no entry\nLOCATION:  auth_failed, auth.c:326\n");
  EXPECT_EQ(error.message(), "PostgreSQL: it failed: FATAL:  no entry");
}

}  // namespace
}  // namespace warren::pg
