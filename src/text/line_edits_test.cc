#include "text/line_edits.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

using Problem = LineEditProblem::Kind;

std::string edited(std::string_view text, const std::vector<LineEdit>& edits) {
  LineEditResult result = edit_lines(text, edits);
  return result.problem ? "problem" : result.text;
}

std::optional<Problem> problem_with(std::string_view text, const std::vector<LineEdit>& edits) {
  LineEditResult result = edit_lines(text, edits);
  if (!result.problem) return std::nullopt;
  EXPECT_EQ(result.text, "");
  return result.problem->kind;
}

TEST(LineEdits, LinesAreReplacedInsertedAndDeletedByTheirOldNumbers) {
  EXPECT_EQ(edited("a\nb\nc\n", {{2, 2, "B"}}), "a\nB\nc\n");
  EXPECT_EQ(edited("a\nb\nc\n", {{1, 2, "x\ny\nz\n"}}), "x\ny\nz\nc\n");
  EXPECT_EQ(edited("a\nb\nc\n", {{2, 3, ""}}), "a\n");
  EXPECT_EQ(edited("a\nb\n", {{1, 0, "first"}}), "first\na\nb\n");
  EXPECT_EQ(edited("a\nb\n", {{3, 0, "last"}}), "a\nb\nlast\n");
  EXPECT_EQ(edited("a\nb\nc\nd\n", {{4, 4, "D"}, {1, 1, ""}, {3, 0, "new"}}), "b\nnew\nc\nD\n");
  EXPECT_EQ(edited("a\nb\n", {{2, 0, "1"}, {2, 0, "2"}, {2, 2, "B"}}), "a\n1\n2\nB\n");
  EXPECT_EQ(edited("a\nb\n", {{2, 2, "B"}, {3, 0, "c"}}), "a\nB\nc\n");
  EXPECT_EQ(edited("a\n", {{1, 1, "\n"}}), "\n");
}

TEST(LineEdits, TheLineEndsOfTheTextStay) {
  EXPECT_EQ(edited("a\r\nb\r\n", {{2, 2, "x\ny"}}), "a\r\nx\r\ny\r\n");
  EXPECT_EQ(edited("a\nb\n", {{1, 1, "x\r\ny\r\n"}}), "x\ny\nb\n");
  EXPECT_EQ(edited("a\r\nb\nc\r\n", {{2, 2, "B"}}), "a\r\nB\r\nc\r\n");
  EXPECT_EQ(edited("a\n", {{1, 1, "x\r"}}), "x\r\n");  // a return that ends no line is a byte of the line
}

TEST(LineEdits, TheTextEndsWithANewlineExactlyIfItDidBefore) {
  EXPECT_EQ(edited("a\nb", {{2, 2, "B\n"}}), "a\nB");
  EXPECT_EQ(edited("a\nb", {{3, 0, "c\n"}}), "a\nb\nc");
  EXPECT_EQ(edited("a\nb", {{2, 2, ""}}), "a");
  EXPECT_EQ(edited("a\nb", {{1, 1, ""}}), "b");
  EXPECT_EQ(edited("a\r\nb", {{3, 0, "c"}}), "a\r\nb\r\nc");
  EXPECT_EQ(edited("a\nb\n", {{2, 2, "B"}}), "a\nB\n");
  EXPECT_EQ(edited("a\n", {{1, 1, ""}}), "");
  EXPECT_EQ(edited("", {{1, 0, "a"}}), "a\n");
}

TEST(LineEdits, WhatIsOutOfRangeChangesNothing) {
  for (const LineEdit& edit : {LineEdit{0, 0, "x"},
                               {0, 1, "x"},
                               {4, 0, "x"},
                               {3, 3, "x"},
                               {2, 1, "x"},
                               {1, 3, "x"},
                               {SIZE_MAX, SIZE_MAX, "x"},
                               {1, SIZE_MAX, "x"}}) {
    EXPECT_EQ(problem_with("a\nb\n", {{1, 1, "A"}, edit}), Problem::kOutOfRange) << edit.start_line;
  }
  EXPECT_EQ(problem_with("", {{1, 1, "x"}}), Problem::kOutOfRange);
  EXPECT_EQ(problem_with("a\n", {{1, 0, ""}}), Problem::kEmpty);
  EXPECT_EQ(edit_lines("a\nb\n", {{1, 1, "A"}, {9, 9, "x"}}).problem->edit, 1U);
}

TEST(LineEdits, OverlappingEditsChangeNothing) {
  EXPECT_EQ(problem_with("a\nb\nc\n", {{1, 2, "x"}, {2, 3, "y"}}), Problem::kOverlap);
  EXPECT_EQ(problem_with("a\nb\nc\n", {{2, 2, "x"}, {2, 2, "y"}}), Problem::kOverlap);
  EXPECT_EQ(problem_with("a\nb\nc\n", {{1, 3, "x"}, {2, 0, "y"}}), Problem::kOverlap);
  EXPECT_EQ(problem_with("a\nb\nc\n", {{1, 3, "x"}, {2, 2, "y"}, {3, 3, "z"}}), Problem::kOverlap);
  EXPECT_EQ(problem_with("a\nb\nc\n", {{1, 1, "x"}, {2, 0, "y"}, {2, 3, "z"}}), std::nullopt);
}

TEST(LineEdits, NoEditsAndOddTextsStayAsTheyAre) {
  EXPECT_EQ(edited("a\n\0b"
                   "\r\n\xff",
                   {}),
            "a\n\0b"
            "\r\n\xff");
  EXPECT_EQ(edited("", {}), "");
}

}  // namespace
}  // namespace warren
