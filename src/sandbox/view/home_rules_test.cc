#include "sandbox/view/home_rules.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(HomeRules, EnvironmentFilesAndTheirTemporaryFilesAreSecret) {
  for (std::string_view name : {".env", ".env.local", "prod.env", ".envrc", ".env.swp", ".env~", "#.env#", ".#.env",
                                "..env.swp", "sedAbC12x", ".env.production.local"}) {
    EXPECT_TRUE(is_secret_name(name)) << name;
  }
  for (std::string_view name : {".env.example", ".env.sample", "app.env.js", "env", ".environment", "sed", "sedition",
                                "sed.txt.gz", "README"}) {
    EXPECT_FALSE(is_secret_name(name)) << name;
  }
}

TEST(HomeRules, PathsAreRelativeAndWithoutDuplicates) {
  for (auto list : {home_secrets(), home_tools(), home_sign_ins()}) {
    for (std::string_view path : list) {
      EXPECT_FALSE(path.empty() || path.front() == '/' || path.back() == '/') << path;
      EXPECT_EQ(std::count(list.begin(), list.end(), path), 1) << path;
    }
  }
}

}  // namespace
}  // namespace warren
