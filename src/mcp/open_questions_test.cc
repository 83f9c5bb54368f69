#include "mcp/open_questions.h"

#include <gtest/gtest.h>

namespace warren::mcp {
namespace {

TEST(OpenQuestions, AnAnswerCountsOnceAndOnlyForItsQuestion) {
  OpenQuestions open;
  std::string state = open.add("about this");
  EXPECT_NE(open.add("about this"), state);
  EXPECT_FALSE(open.take(state, "about that"));
  EXPECT_FALSE(open.take("another state", "about this"));
  EXPECT_TRUE(open.take(state, "about this"));
  EXPECT_FALSE(open.take(state, "about this"));
}

TEST(OpenQuestions, TheOldestIsDroppedAtTheLimit) {
  OpenQuestions open;
  std::string oldest = open.add("x");
  std::string next = open.add("x");
  for (std::size_t i = 1; i < OpenQuestions::kOpenMax; ++i) open.add("x");
  EXPECT_FALSE(open.take(oldest, "x"));
  EXPECT_TRUE(open.take(next, "x"));
}

}  // namespace
}  // namespace warren::mcp
