// What every tool says when it is called wrongly: always a next step, and never one for a shell.
#include "tools/hints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "tools/tool_case_testing.h"

namespace warren {
namespace {

class Hints : public ToolCase {
 protected:
  void SetUp() override {
    ToolCase::SetUp();
    reach_.relay = RelayPlace{.root = dir_.path() + "/no-relay", .name = "a", .token = {}};
    reach_.run = [](const SandboxCommand&) -> Result<ProgramEnd> { return shell_error(); };
    reach_.apply = [](const ApplyRequest&) -> Result<ProgramEnd> { return shell_error(); };
  }

  static Error shell_error() { return Error(Code::kBusy, "it runs already", "see `warren sessions`"); }

  ToolAnswer call(const Tool& tool, const Json& arguments) {
    ToolContext used = context();
    used.is_read_only = is_read_only_;
    used.reach = &reach_;
    used.offered = offered_.empty() ? nullptr : &offered_;
    return call_tool(used, tool, arguments);
  }
  ToolAnswer call(std::string_view name, const Json& arguments) { return call(*find_tool(name), arguments); }

  // Returns whether it failed.
  bool fails_with_a_next_step(const Tool& tool, const Json& arguments) {
    ToolAnswer answer = call(tool, arguments);
    if (!answer.error) return false;
    std::string said = fmt::format("{} {}: {} / {}", tool.name, dump_json(arguments).substr(0, 200),
                                   answer.error->message, answer.error->next_action_hint);
    EXPECT_NE(answer.error->next_action_hint, "") << said;
    EXPECT_FALSE(is_for_shell(answer.error->next_action_hint)) << said;
    for (const char* of_shell : {"warren ", "--"}) {
      EXPECT_EQ(answer.error->next_action_hint.find(of_shell), std::string::npos) << said;
      EXPECT_EQ(answer.error->message.find(of_shell), std::string::npos) << said;
    }
    return true;
  }

  ToolReach reach_;
  bool is_read_only_ = false;
  std::vector<const Tool*> offered_;  // empty: all
};

// A value that the schema allows, made of this text.
Json value_of(const Json& schema, const std::string& text);

Json object_of(const Json& schema, const std::string& text, bool has_all) {
  Json made = Json::object();
  Json required = schema.value("required", Json::array());
  Json properties = schema.value("properties", Json::object());
  for (const auto& [name, one] : properties.items()) {
    bool is_required = std::find(required.begin(), required.end(), Json(name)) != required.end();
    if (has_all || is_required) made[name] = value_of(one, text);
  }
  return made;
}

Json value_of(const Json& schema, const std::string& text) {
  if (schema.contains("enum")) return schema["enum"][0];
  Json type = schema.value("type", Json("string"));
  if (type.is_array()) type = type[0];
  if (type == "integer" || type == "number") return schema.value("minimum", Json(1));
  if (type == "boolean") return true;
  if (type == "object") return object_of(schema, text, true);
  if (type != "array") return text;
  Json list = Json::array();
  for (std::size_t i = 0; i < schema.value("minItems", std::size_t{1}); ++i) {
    list.push_back(value_of(schema.value("items", Json::object()), text));
  }
  return list;
}

const std::vector<std::string>& bad_texts() {
  static const std::vector<std::string> kTexts{"",
                                               "/nowhere/x",
                                               "/",
                                               "12",
                                               "..",
                                               "nodrive:/x",
                                               "[(",
                                               "/file/x",
                                               "/f",
                                               "/state",
                                               "/mem/semantic/x.json",
                                               "/policy/x",
                                               std::string("a\0b", 3),
                                               std::string(5000, 'x')};
  return kTexts;
}

TEST_F(Hints, EveryErrorOfEveryToolHasANextStepForAModel) {
  ASSERT_OK(write_file(*view_, "/file", as_bytes("x")));
  for (const Tool* tool : all_tools()) {
    Json schema = tool->input_schema();
    int failures = 0;
    failures += fails_with_a_next_step(*tool, {{"nonsense", 1}}) ? 1 : 0;
    for (const std::string& text : bad_texts()) {
      for (bool has_all : {false, true}) {
        Json arguments = object_of(schema, text, has_all);
        failures += fails_with_a_next_step(*tool, arguments) ? 1 : 0;
        Json properties = schema["properties"];
        for (const auto& [name, one] : properties.items()) {  // each choice in its turn
          for (const Json& choice : one.value("enum", Json::array())) {
            arguments[name] = choice;
            failures += fails_with_a_next_step(*tool, arguments) ? 1 : 0;
          }
        }
      }
    }
    EXPECT_GT(failures, 0) << tool->name;
  }
}

TEST_F(Hints, ToolsThatCannotBeCalledHereSayWhatElse) {
  reach_ = {};
  for (const Tool* tool : all_tools()) {
    if (tool->need == ToolNeed::kNothing) continue;
    EXPECT_TRUE(fails_with_a_next_step(*tool, Json::object())) << tool->name;
  }
  is_read_only_ = true;
  EXPECT_TRUE(fails_with_a_next_step(*find_tool("kv_set"), {{"key", "k"}, {"value", 1}}));
}

TEST_F(Hints, AMissingCheckpointLeadsToTheListOfThem) {
  for (auto [name, arguments] : {std::pair<const char*, Json>{"diff", {{"from", "none"}}},
                                 {"restore", {{"checkpoint", "none"}, {"paths", {"/x"}}}}}) {
    ToolAnswer answer = call(name, arguments);
    ASSERT_TRUE(answer.error) << name;
    EXPECT_EQ(answer.error->next_action_hint, "List the checkpoints: history {}") << name;
  }
  ToolAnswer number = call("checkpoint", {{"name", "12"}});
  ASSERT_TRUE(number.error);
  EXPECT_NE(number.error->next_action_hint.find("checkpoint {\"name\""), std::string::npos);
}

TEST_F(Hints, OfTheNamespaceAreInItsOwnWords) {
  ASSERT_OK(write_file(*view_, "/file", as_bytes("x")));
  offered_ = {find_tool("vfs_operation")};
  auto hint_of = [&](const char* operation, const char* path) {
    ToolAnswer answer = call("vfs_operation", {{"operation", operation}, {"path", path}});
    return answer.error ? answer.error->next_action_hint : "it did not fail";
  };
  EXPECT_EQ(hint_of("read", "/mem/none"), R"(See what exists: vfs_operation {"operation":"list","path":"/mem"})");
  EXPECT_EQ(hint_of("read", "/mem"), R"(It is a directory. List it: vfs_operation {"operation":"list","path":"/mem"})");
  EXPECT_EQ(hint_of("list", "/file"), R"(If it is a file, read it: vfs_operation {"operation":"read","path":"/file"})");
  EXPECT_EQ(hint_of("restore", "none"),
            R"(List the checkpoints: vfs_operation {"operation":"list","path":"/state/checkpoints"})");
  EXPECT_FALSE(call("vfs_operation", {{"operation", "list"}, {"path", "/state/checkpoints"}}).error);
}

TEST_F(Hints, NameOnlyToolsThatAreOffered) {
  ASSERT_EQ(call("read_file", {{"path", "/none"}}).error->next_action_hint, R"(See what exists: readdir {"path":"/"})");
  offered_ = {find_tool("read_file")};
  ToolAnswer alone = call("read_file", {{"path", "/none"}});
  ASSERT_TRUE(alone.error);
  EXPECT_EQ(alone.error->next_action_hint,
            "Use another tool of those that are offered here, or tell the user what the message says.");
  offered_ = {find_tool("read_file"), find_tool("readdir")};
  EXPECT_EQ(call("read_file", {{"path", "/none"}}).error->next_action_hint, R"(See what exists: readdir {"path":"/"})");
}

TEST_F(Hints, AreFollowedOnlyByToolsThatAreThere) {
  const std::vector<const Tool*> offered{find_tool("read_file"), find_tool("copy")};
  for (const char* hint : {"Read it: read_file {\"path\": \"/readdir {\"}", "Run it, or restore what was there.",
                           "Call read_file again with arguments that match: {\"readdir\": 1}", "Take copy {}", ""}) {
    EXPECT_TRUE(names_only(hint, offered)) << hint;
  }
  for (const char* hint : {"history {}", "See what exists: readdir {\"path\": \"/\"}", "look into it with readdir.",
                           "Call context_tree to look around."}) {
    EXPECT_FALSE(names_only(hint, offered)) << hint;
  }
}

TEST_F(Hints, ReadingPastTheEndSaysSo) {
  ASSERT_OK(write_file(*view_, "/eight", as_bytes("12345678")));
  ASSERT_OK(write_file(*view_, "/none", as_bytes("")));
  EXPECT_EQ(call("read_file", {{"path", "/eight"}, {"offset", 100}}).text,
            "(offset 100 is past the end: the file has 8 bytes)");
  EXPECT_EQ(call("read_file", {{"path", "/eight"}, {"offset", 8}}).text,
            "(offset 8 is past the end: the file has 8 bytes)");
  EXPECT_EQ(call("read_file", {{"path", "/eight"}, {"length", 0}}).text,
            "(no byte was asked for: the file has 8 bytes)");
  EXPECT_EQ(call("read_file", {{"path", "/none"}}).text, "(the file is empty)");
}

TEST(ShellHints, AreRecognised) {
  for (const char* hint : {"`warren checkpoint ID list` shows them", "`--raw` stores it", "use -r to copy directories",
                           "see warren fsck", "give --force"}) {
    EXPECT_TRUE(is_for_shell(hint)) << hint;
  }
  for (const char* hint : {"", "Call readdir {\"path\": \"/a--b\"}", "a well-known name", "between 1 - 3"}) {
    EXPECT_FALSE(is_for_shell(hint)) << hint;
  }
}

TEST_F(Hints, DescriptionsSayWhatComesBackAndGiveAnExample) {
  for (const Tool* tool : all_tools()) {
    std::string_view said = tool->description;
    EXPECT_NE(said.find("eturns "), said.npos) << tool->name;
    EXPECT_NE(said.find("Example: {"), said.npos) << tool->name;
    EXPECT_LT(said.size(), 600U) << tool->name;
  }
}

}  // namespace
}  // namespace warren
