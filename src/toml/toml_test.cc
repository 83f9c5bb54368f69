#include "toml/toml.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(Toml, TablesAndArraysBecomeJson) {
  Result<Json> json =
      parse_toml("net = [\"a\", \"b\"]\nn = 3\nok = true\nday = 2026-01-31\n[project.\"/x y\"]\nf = 1.5\n");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["net"], Json::parse("[\"a\", \"b\"]"));
  EXPECT_EQ((*json)["n"], 3);
  EXPECT_EQ((*json)["ok"], true);
  EXPECT_EQ((*json)["day"], "2026-01-31");
  EXPECT_EQ((*json)["project"]["/x y"]["f"], 1.5);
}

TEST(Toml, AMistakeIsNamedByItsPosition) {
  Result<Json> json = parse_toml("a = 1\nb = \n");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().code(), Code::kInvalid);
  EXPECT_TRUE(json.error().message().starts_with("line 2")) << json.error().message();
  EXPECT_FALSE(parse_toml("a = 1\na = 2\n").ok());
}

}  // namespace
}  // namespace warren
