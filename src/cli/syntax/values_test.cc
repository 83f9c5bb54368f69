#include "cli/syntax/values.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include "testing/matchers.h"

namespace warren::cli {
namespace {

using testing::error_of;

TEST(Values, ASizeIsANumberWithAUnit) {
  EXPECT_EQ(*parse_size("4096"), 4096U);
  EXPECT_EQ(*parse_size("64K"), 65536U);
  EXPECT_EQ(*parse_size("64k"), 65536U);
  EXPECT_EQ(*parse_size("64KiB"), 65536U);
  EXPECT_EQ(*parse_size("1.5M"), 1572864U);
  EXPECT_EQ(*parse_size("10B"), 10U);
  for (const char* bad : {"", "K", "-1", "1X", "1KK", "1.5.5K", "9999999P", "0x10", "1 K", "nan", "inf"}) {
    EXPECT_EQ(error_of(parse_size(bad)), Code::kInvalid) << bad;
  }
}

TEST(Values, ADurationHasAUnitAndIsNeverZero) {
  using std::chrono::milliseconds;
  EXPECT_EQ(*parse_duration("30s"), milliseconds(30'000));
  EXPECT_EQ(*parse_duration("1.5m"), milliseconds(90'000));
  EXPECT_EQ(*parse_duration("2h"), milliseconds(7'200'000));
  EXPECT_EQ(*parse_duration("1d"), milliseconds(86'400'000));
  EXPECT_EQ(*parse_duration("5ms"), milliseconds(5));
  for (const char* bad : {"", "0", "30", "1.5", "0s", "-5s", "5w", "s", "5 s", "1e9d", "99999999999999d"}) {
    EXPECT_EQ(error_of(parse_duration(bad)), Code::kInvalid) << bad;
  }
  EXPECT_EQ(parse_duration("7").error().message(), "'7' has no unit: write 7d, 7h, 7m or 7s");
}

TEST(Values, ATimeIsSecondsOrADate) {
  EXPECT_EQ(*parse_time("0"), 0);
  EXPECT_EQ(*parse_time("-5"), -5);
  EXPECT_EQ(*parse_time("1970-01-02"), 86400);
  EXPECT_EQ(*parse_time("2026-01-01T00:00:00Z"), 1767225600);
  EXPECT_EQ(*parse_time("2026-01-01 00:01"), 1767225660);
  EXPECT_EQ(*parse_time("2024-02-29"), 1709164800);
  for (const char* bad : {"", "today", "2026-13-01", "2026-02-30", "2026-1-1", "2026-01-01T25:00:00", "2026-01-01T",
                          "2026-01-01T00:00:00+01:00", "2026-01-01x"}) {
    EXPECT_EQ(error_of(parse_time(bad)), Code::kInvalid) << bad;
  }
}

TEST(Values, ADurationIsNoTimeAndTheMessageSaysWhatIs) {
  std::string message = parse_time("1h").error().message();
  EXPECT_TRUE(message.starts_with("'1h' is a length of time; a point in time is needed, such as 2026")) << message;
}

TEST(Values, NumbersThatDoNotFitAreRefused) {
  EXPECT_EQ(*parse_integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(error_of(parse_integer("9223372036854775808")), Code::kInvalid);
  EXPECT_EQ(error_of(parse_integer("")), Code::kInvalid);
  EXPECT_EQ(error_of(parse_integer("1x")), Code::kInvalid);
  EXPECT_EQ(error_of(parse_count("-1")), Code::kInvalid);
  EXPECT_EQ(*parse_count("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(error_of(parse_count("9223372036854775808")), Code::kInvalid);
  EXPECT_EQ(*parse_user_id("4294967294"), 4294967294U);
  for (const char* bad : {"-1", "4294967295", "4294967296", "root"}) {
    EXPECT_EQ(error_of(parse_user_id(bad)), Code::kInvalid) << bad;
  }
}

TEST(Values, TimesAndModesAreFormattedForPeople) {
  EXPECT_EQ(format_time(1767225600), "2026-01-01 00:00:00");
  EXPECT_EQ(format_time(-1), "1969-12-31 23:59:59");
  EXPECT_EQ(format_time(INT64_MAX), "9223372036854775807");
  EXPECT_EQ(format_mode(S_IFDIR | 01777U), "drwxrwxrwt");
  EXPECT_EQ(format_mode(S_IFREG | 04644U), "-rwSr--r--");
  EXPECT_EQ(format_mode(S_IFLNK | 0777U), "lrwxrwxrwx");
}

}  // namespace
}  // namespace warren::cli
