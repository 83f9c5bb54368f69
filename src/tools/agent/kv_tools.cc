// The tools of the key-value store: kv_get, kv_set, kv_delete, kv_list.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "agent/agent.h"
#include "base/path.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::uint64_t kLongestLife = std::uint64_t{1} << 53;  // milliseconds

ToolAnswer kv_answer(Result<ToolAnswer> made) {
  if (made.ok()) return std::move(made).take_value();
  ToolAnswer answer;
  std::string hint = made.error().hint();
  if (hint.empty() && made.error().code() == Code::kDenied) hint = "The rules of this namespace do not allow it.";
  if (hint.empty() && made.error().code() == Code::kNotFound) hint = "List the keys: kv_list {}";
  answer.error = tool_error(made.error(), std::move(hint));
  return answer;
}

// A missing key is no error: its value is null, as for AgentFS.
Result<ToolAnswer> kv_get_answer(ToolContext& context, const Json& arguments) {
  std::string key = text_argument(arguments, "key");
  WARREN_TRY(check_key(context.view, Rights::kRead, key));
  std::optional<std::string> text = WARREN_TRY(context.agent.kv().find(key));
  if (text && text->size() > kToolReadBytesMax) {
    return Error(Code::kTooLarge,
                 fmt::format("the value of {} has {} bytes, and an answer carries at most {}", quote(key), text->size(),
                             kToolReadBytesMax),
                 "Store large values as files: write_file.");
  }
  ToolAnswer answer;
  answer.structured["key"] = key;
  answer.structured["exists"] = text.has_value();
  answer.structured["value"] = nullptr;
  if (text) answer.structured["value"] = WARREN_TRY(parse_json(*text).within(fmt::format("key {}", quote(key))));
  answer.text = dump_json_pretty(answer.structured["value"]);
  return answer;
}

Result<ToolAnswer> kv_set_answer(ToolContext& context, const Json& arguments) {
  std::string key = text_argument(arguments, "key");
  std::optional<std::chrono::milliseconds> life;
  if (arguments.contains("ttl_ms")) life = std::chrono::milliseconds(count_argument(arguments, "ttl_ms", 0));
  std::string value = dump_json(arguments["value"]);
  WARREN_TRY(check_key(context.view, Rights::kOverwrite, key, value.size()));
  WARREN_TRY(context.agent.kv().set(key, value, life));
  ToolAnswer answer;
  answer.structured["key"] = key;
  answer.text = fmt::format("Set key: {}", key);
  return answer;
}

Result<ToolAnswer> kv_delete_answer(ToolContext& context, const Json& arguments) {
  std::string key = text_argument(arguments, "key");
  WARREN_TRY(check_key(context.view, Rights::kDelete, key));
  bool existed = WARREN_TRY(context.agent.kv().remove(key));
  ToolAnswer answer;
  answer.structured["key"] = key;
  answer.structured["existed"] = existed;
  answer.text = existed ? fmt::format("Deleted key: {}", key) : fmt::format("There was no key: {}", key);
  return answer;
}

Result<ToolAnswer> kv_list_answer(ToolContext& context, const Json& arguments) {
  std::size_t limit = std::min<std::size_t>(count_argument(arguments, "limit", kToolPageEntries), kToolPageEntries);
  std::vector<std::string> keys = WARREN_TRY(context.agent.kv().keys(
      {.prefix = text_argument(arguments, "prefix"), .after = text_argument(arguments, "after"), .limit = limit + 1}));
  bool has_more = keys.size() > limit;
  if (has_more) keys.pop_back();
  ToolAnswer answer;
  answer.structured["next_after"] = has_more ? Json(keys.back()) : Json(nullptr);
  answer.structured["keys"] = WARREN_TRY(readable_keys(context.view, std::move(keys)));
  answer.text = dump_json_pretty(answer.structured["keys"]);
  return answer;
}

Json key_schema() { return text_schema("1 to 4096 bytes"); }

Json kv_get_input() { return object_schema({{"key", key_schema()}}, {"key"}); }

Json kv_get_output() {
  return object_schema(
      {{"key", text_schema("")},
       {"exists", flag_schema("")},
       {"value", {{"description", "any JSON value; null if the key does not exist"}, {"additionalProperties", true}}}},
      {"key", "exists", "value"});
}

Json kv_set_input() {
  Json life = whole_number_schema("milliseconds until it is gone; default: it stays", 1);
  life["maximum"] = kLongestLife;
  return object_schema({{"key", key_schema()},
                        {"value", {{"description", "any JSON value"}, {"additionalProperties", true}}},
                        {"ttl_ms", std::move(life)}},
                       {"key", "value"});
}

Json kv_set_output() { return object_schema({{"key", text_schema("")}}, {"key"}); }
Json kv_delete_input() { return object_schema({{"key", key_schema()}}, {"key"}); }

Json kv_delete_output() {
  return object_schema({{"key", text_schema("")}, {"existed", flag_schema("")}}, {"key", "existed"});
}

Json kv_list_input() {
  return object_schema({{"prefix", text_schema("only keys that begin with this")},
                        {"limit", whole_number_schema("default 1000", 1)},
                        {"after", text_schema("next_after of the page before")}},
                       {});
}

Json kv_list_output() {
  return object_schema({{"keys", list_schema("sorted", text_schema(""))},
                        {"next_after", {{"type", {"string", "null"}}, {"description", "null: this is the end"}}}},
                       {"keys", "next_after"});
}

}  // namespace

const Tool& kv_get_tool() {
  static constexpr Tool kTool{
      .name = "kv_get",
      .title = "Get a value",
      .group = "keys",
      .description =
          "Get the value of a key from the agent's key-value store; kv_list shows the keys. Returns the "
          "JSON value, null for a missing key. Example: {\"key\": \"task:1\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = kv_get_input,
      .output_schema = kv_get_output,
      .call = [](ToolContext& context, const Json& arguments) { return kv_answer(kv_get_answer(context, arguments)); }};
  return kTool;
}

const Tool& kv_set_tool() {
  static constexpr Tool kTool{
      .name = "kv_set",
      .title = "Set a value",
      .group = "keys",
      .description =
          "Store a JSON value under a key. Use it for small state: counters, settings, the current task; "
          "for texts use files. Returns the key. Example: {\"key\": \"task:1\", \"value\": {\"done\": "
          "false}}",
      .hints = {.is_destructive = true, .is_idempotent = true},
      .input_schema = kv_set_input,
      .output_schema = kv_set_output,
      .call = [](ToolContext& context, const Json& arguments) { return kv_answer(kv_set_answer(context, arguments)); }};
  return kTool;
}

const Tool& kv_delete_tool() {
  static constexpr Tool kTool{
      .name = "kv_delete",
      .title = "Delete a key",
      .group = "keys",
      .description =
          "Delete a key and its value, when the state is no longer needed. Returns whether it existed. "
          "Example: {\"key\": \"task:1\"}",
      .hints = {.is_destructive = true, .is_idempotent = true},
      .input_schema = kv_delete_input,
      .output_schema = kv_delete_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return kv_answer(kv_delete_answer(context, arguments));
      }};
  return kTool;
}

const Tool& kv_list_tool() {
  static constexpr Tool kTool{
      .name = "kv_list",
      .title = "List keys",
      .group = "keys",
      .description =
          "List the keys of the key-value store; kv_get reads one. Returns the names, sorted, in pages. "
          "Example: {\"prefix\": \"task:\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = kv_list_input,
      .output_schema = kv_list_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return kv_answer(kv_list_answer(context, arguments));
      }};
  return kTool;
}

}  // namespace warren
