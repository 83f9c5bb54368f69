#include "relay/root/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

TEST(RelayConfigTest, AnEmptyObjectIsTheDefaults) {
  Config config = *parse_config("{}");
  EXPECT_EQ(config.lead, "");
  EXPECT_EQ(config.message_bytes_max, 1U << 20);
  EXPECT_EQ(config.rate_per_second, 10'000);
  EXPECT_EQ(config.settle, std::chrono::milliseconds(100));
  EXPECT_EQ(config.rescan, std::chrono::seconds(30));
  EXPECT_EQ(config.deadline, std::chrono::hours(24));
  EXPECT_EQ(config.log_bytes_max, 16U << 20);
  EXPECT_EQ(config.attachment_bytes_max, 1U << 30);
  EXPECT_EQ(config.attachment_keep, std::chrono::hours(1));
}

TEST(RelayConfigTest, EveryKeySetsWhatItSays) {
  EXPECT_EQ(parse_config(R"({"lead": "bob"})")->lead, "bob");
  EXPECT_EQ(parse_config(R"({"message_bytes_max": 7})")->message_bytes_max, 7U);
  EXPECT_EQ(parse_config(R"({"rate_per_second": 7})")->rate_per_second, 7);
  EXPECT_EQ(parse_config(R"({"settle_ms": 7})")->settle, std::chrono::milliseconds(7));
  EXPECT_EQ(parse_config(R"({"rescan_ms": 700})")->rescan, std::chrono::milliseconds(700));
  EXPECT_EQ(parse_config(R"({"deadline_ms": 7})")->deadline, std::chrono::milliseconds(7));
  EXPECT_EQ(parse_config(R"({"log_bytes_max": 7000})")->log_bytes_max, 7000U);
  EXPECT_EQ(parse_config(R"({"attachment_bytes_max": 7})")->attachment_bytes_max, 7U);
  EXPECT_EQ(parse_config(R"({"attachment_carry_bytes_max": 0})")->attachment_carry_bytes_max, 0U);
  EXPECT_EQ(parse_config(R"({"attachment_keep_ms": 7})")->attachment_keep, std::chrono::milliseconds(7));
}

struct Range {
  const char* key;
  std::int64_t least;
  std::int64_t most = 1'099'511'627'776;
};

TEST(RelayConfigTest, NumbersAreWholeAndInTheirRange) {
  for (const Range& range :
       {Range{"message_bytes_max", 1, 536'870'912}, Range{"rate_per_second", 0}, Range{"settle_ms", 1},
        Range{"rescan_ms", 100}, Range{"deadline_ms", 1}, Range{"log_bytes_max", 4096},
        Range{"attachment_bytes_max", 1}, Range{"attachment_carry_bytes_max", 0}, Range{"attachment_keep_ms", 0}}) {
    auto with = [&](std::string_view value) { return parse_config(fmt::format(R"({{"{}": {}}})", range.key, value)); };
    EXPECT_OK(with(std::to_string(range.least)));
    EXPECT_OK(with(std::to_string(range.most)));
    for (const std::string& bad : {std::to_string(range.least - 1), std::to_string(range.most + 1), std::string("1.5"),
                                   std::string("\"5\""), std::string("true"), std::string("null"), std::string("[]"),
                                   std::string("18446744073709551615"), std::string("1e999")}) {
      Result<Config> read = with(bad);
      EXPECT_EQ(error_of(read), Code::kInvalid) << range.key << " " << bad;
    }
    EXPECT_NE(with("-5").error().message().find(range.key), std::string::npos);
  }
}

TEST(RelayConfigTest, UnknownKeysAndOtherShapesAreRefused) {
  for (const char* bad : {"", "[]", "null", "1", "{", R"({"setle_ms": 1})", R"({"SETTLE_MS": 1})", R"({"": 1})",
                          R"({"lead": 1})", R"({"lead": ""})", R"({"lead": "../x"})", R"({"lead": "root"})"}) {
    EXPECT_EQ(error_of(parse_config(bad)), Code::kInvalid) << bad;
  }
  EXPECT_NE(parse_config(R"({"setle_ms": 1})").error().message().find("setle_ms"), std::string::npos);
}

}  // namespace
}  // namespace warren::relay
