#include "os/processes/exec_strings.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

namespace warren {
namespace {

TEST(ExecStrings, EndInANullPointer) {
  std::vector<std::string> words{"echo", ""};
  std::vector<char*> argv = exec_strings(words);
  ASSERT_EQ(argv.size(), 3U);
  EXPECT_STREQ(argv[0], "echo");
  EXPECT_STREQ(argv[1], "");
  EXPECT_EQ(argv[2], nullptr);
}

TEST(ExecStrings, AVariableReplacesOnlyTheOneOfItsName) {
  ::setenv("WARREN_TEST_EXEC", "old", 1);
  ::setenv("WARREN_TEST_EXECUTE", "other", 1);
  std::string variable = "WARREN_TEST_EXEC=new";
  std::vector<char*> env = environment_with(variable);
  ASSERT_EQ(env.back(), nullptr);
  env.pop_back();
  auto count = [&](std::string_view text) { return std::count(env.begin(), env.end(), text); };
  EXPECT_EQ(count("WARREN_TEST_EXEC=new"), 1);
  EXPECT_EQ(count("WARREN_TEST_EXEC=old"), 0);
  EXPECT_EQ(count("WARREN_TEST_EXECUTE=other"), 1);
  ::unsetenv("WARREN_TEST_EXEC");
  ::unsetenv("WARREN_TEST_EXECUTE");
}

}  // namespace
}  // namespace warren
