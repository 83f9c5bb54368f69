#include "base/json.h"

#include <cmath>
#include <random>

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

TEST(Json, TextIsWrittenAsTheLibraryWritesIt) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  std::vector<std::string> texts{"",
                                 "plain",
                                 "\"\\/",
                                 all_bytes.substr(0, 128),
                                 all_bytes,
                                 "gr\xC3\xBC\xC3\x9F",
                                 "\xED\xA0\x80 no",
                                 "12345678\xFF",
                                 "1234567\xC3",
                                 "\xF4\x8F\xBF\xBF\xF4\x90\x80\x80",
                                 "a\nb\x7F\x01"};
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (std::size_t size = random() % 40; text.size() < size;) text += all_bytes[random() % (i % 2 == 0 ? 128 : 256)];
    texts.push_back(text);
  }
  Json value{{"numbers", {0, -1, 1.5, 1e300, 0.1, 18446744073709551615U, NAN}},
             {"empty", {Json::object(), Json::array()}}};
  for (const std::string& text : texts) {
    value[text] = {{"nested", {text, nullptr, true, false}}};
    EXPECT_EQ(dump_json(text), Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  EXPECT_EQ(dump_json(value), value.dump(-1, ' ', false, Json::error_handler_t::replace));
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
