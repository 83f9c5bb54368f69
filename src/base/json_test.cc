#include "base/json.h"

#include <gtest/gtest.h>

#include "base/strict_json.h"

namespace warren {
namespace {

std::string nested(int levels) {
  auto count = static_cast<std::size_t>(levels);
  return std::string(count, '[') + std::string(count, ']');
}

TEST(Json, ValuesThatWouldTakeTheStackAreRefused) {
  EXPECT_TRUE(parse_json(nested(500)).ok());
  EXPECT_TRUE(is_json(nested(500)));
  for (int levels : {501, 1'000'000}) {
    Result<Json> refused = parse_json(nested(levels));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message(), "the JSON is nested more than 500 levels deep");
    EXPECT_FALSE(is_json(nested(levels)));
  }
  std::string text = "[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]";
  EXPECT_TRUE(parse_json(text).ok());
}

TEST(Json, OneNameTwiceInAnObjectIsAnErrorOnlyForStrictReaders) {
  for (const char* text : {R"({"a": 1, "a": 2})", R"([{"b": {"a": 1, "c": [], "a": {}}}])"}) {
    EXPECT_TRUE(parse_json(text).ok());
    Result<Json> refused = parse_strict_json(text);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message(), "'a' is there twice in one object");
  }
  EXPECT_TRUE(parse_strict_json(R"({"a": {"a": [{"a": 1}, {"a": 2}]}, "b": "a"})").ok());
  EXPECT_FALSE(parse_strict_json("{").ok());
}

}  // namespace
}  // namespace warren
