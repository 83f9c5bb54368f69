#include "tools/schema.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

Json patches_schema() {
  Json patch =
      object_schema({{"start_line", whole_number_schema("", 1)}, {"content", text_schema("")}}, {"start_line"});
  Json properties{{"path", text_schema("the path")},
                  {"mode", choice_schema("", {"error", "overwrite"})},
                  {"recursive", flag_schema("")},
                  {"patches", list_schema("", std::move(patch))}};
  properties["path"]["maxLength"] = 10;
  properties["patches"]["minItems"] = 1;
  properties["patches"]["maxItems"] = 2;
  return object_schema(std::move(properties), {"path"});
}

std::string problem_of(std::string_view arguments) {
  Json value = parse_json(arguments).value();
  return find_schema_problem(patches_schema(), value).value_or("none");
}

TEST(Schema, AValueThatFitsHasNoProblem) {
  EXPECT_EQ(problem_of(R"({"path": "a", "mode": "error", "recursive": true, "patches": [{"start_line": 1}]})"), "none");
  EXPECT_EQ(problem_of(R"({"path": "a", "patches": [{"start_line": 2.0, "content": ""}]})"), "none");
}

TEST(Schema, AProblemNamesTheArgumentAndWhatIsAllowed) {
  EXPECT_EQ(problem_of("[]"), "the arguments must be an object, not array");
  EXPECT_EQ(problem_of("{}"), "argument 'path' is missing");
  EXPECT_EQ(problem_of(R"({"path": 1})"), "argument 'path' must be text, not number");
  EXPECT_EQ(problem_of(R"({"path": null})"), "argument 'path' must be text, not null");
  EXPECT_EQ(problem_of(R"({"path": "a", "pth": 1})"),
            "unknown argument 'pth'; known here: path, mode, recursive, patches");
  EXPECT_EQ(problem_of(R"({"path": "12345678901"})"), "argument 'path' must have 10 bytes or less, not 11");
  EXPECT_EQ(problem_of(R"({"path": "a", "mode": "skip"})"),
            "argument 'mode' must be one of 'error', 'overwrite', not 'skip'");
  EXPECT_EQ(problem_of(R"({"path": "a", "recursive": 1})"), "argument 'recursive' must be true or false, not number");
  EXPECT_EQ(problem_of(R"({"path": "a", "patches": []})"), "argument 'patches' must have 1 elements or more, not 0");
  EXPECT_EQ(problem_of(R"({"path": "a", "patches": [1]})"), "argument 'patches[0]' must be an object, not number");
  EXPECT_EQ(problem_of(R"({"path": "a", "patches": [{"start_line": 0}]})"),
            "argument 'patches[0].start_line' must be 1 or more, not 0");
  EXPECT_EQ(problem_of(R"({"path": "a", "patches": [{"start_line": 1.5}]})"),
            "argument 'patches[0].start_line' must be a whole number, not number");
  EXPECT_EQ(problem_of(R"({"path": "a", "patches": [{"start_line": 1e300}]})"),
            "argument 'patches[0].start_line' must be a whole number, not number");
  EXPECT_EQ(problem_of(R"({"path": "a", "patches": [{"start_line": 1}, {"content": "x"}]})"),
            "argument 'patches[1].start_line' is missing");
}

TEST(Schema, UnknownKeywordsAreFoundAtAnyDepth) {
  EXPECT_EQ(find_unknown_keyword(patches_schema()), std::nullopt);
  Json schema = patches_schema();
  schema["properties"]["patches"]["items"]["properties"]["content"]["pattern"] = "a";
  EXPECT_EQ(find_unknown_keyword(schema), "pattern");
}

}  // namespace
}  // namespace warren
