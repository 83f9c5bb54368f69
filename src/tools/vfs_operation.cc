// The tool of the specification's section 5.3 (RFC-002), with restore, exists, append and query.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "backends/vector/vector_item.h"
#include "base/base64.h"
#include "base/path.h"
#include "base/utf8.h"
#include "fs/path_ops.h"
#include "tools/checkpoint_tools.h"
#include "tools/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"
#include "vfs/on_record.h"
#include "vfs/values.h"

namespace warren {
namespace {

using VfsOperation = Result<ToolAnswer> (*)(ToolContext&, const Json& arguments);

bool is_json_name(std::string_view path) { return path.ends_with(".json") || path.ends_with(".jsonl"); }

const Json& data_of(const Json& arguments) {
  static const Json kNothing;
  auto found = arguments.find("data");
  return found == arguments.end() ? kNothing : *found;
}

// Text is stored as it is, except in a .json file, where every value is JSON; other values are stored as JSON.
Result<std::string> data_to_store(const std::string& path, const Json& arguments) {
  if (!arguments.contains("data")) {
    return Error(Code::kInvalid, "this operation needs 'data'", "Give the value to store as \"data\".");
  }
  const Json& data = data_of(arguments);
  if (text_argument(arguments, "encoding") == "base64") {
    std::optional<std::string> bytes = decode_base64(data.is_string() ? data.get<std::string>() : "!");
    if (!bytes) return Error(Code::kInvalid, "'data' is not base64");
    return *std::move(bytes);
  }
  if (data.is_string() && !is_json_name(path)) return data.get<std::string>();
  return dump_json(data);
}

Result<ToolAnswer> vfs_read(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "read"));
  std::string bytes = WARREN_TRY(
      on_record(context.view, "read", path, read_file(context.view, path, {.size_bytes_max = kToolReadBytesMax})));
  ToolAnswer answer;
  if (path.ends_with(".json")) {
    if (Result<Json> value = parse_json(bytes); value.ok()) {
      answer.structured["data"] = *value;
      answer.text = bytes;
      return answer;
    }
  }
  if (is_utf8(bytes)) {
    answer.structured["data"] = bytes;
    answer.text = bytes.empty() ? "(the file is empty)" : std::move(bytes);
    return answer;
  }
  std::string mime = media_type_of(path, bytes);
  answer.structured["data"] = nullptr;
  answer.text = fmt::format("{} holds {} bytes of {}, which follow", path, bytes.size(), mime);
  answer.blob =
      ToolBlob{.bytes = std::move(bytes), .mime = std::move(mime), .uri = vfs_uri(context.names.agent_id(), path)};
  return answer;
}

ToolAnswer vfs_done(std::string text) {
  ToolAnswer answer;
  answer.structured["success"] = true;
  answer.text = std::move(text);
  return answer;
}

Result<ToolAnswer> vfs_write(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "write"));
  std::string data = WARREN_TRY(data_to_store(path, arguments));
  WARREN_TRY(context.names.write(context.view, path, data, AsIs::kNo, std::nullopt));
  return vfs_done(fmt::format("Wrote {} bytes to {}", data.size(), path));
}

Result<ToolAnswer> vfs_append(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "append"));
  std::string data = WARREN_TRY(data_to_store(path, arguments));
  WARREN_TRY(append_value(context.view, path, data));
  return vfs_done(fmt::format("Appended {} bytes to {}", data.size(), path));
}

Result<ToolAnswer> vfs_list(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "list"));
  std::vector<std::string> names = WARREN_TRY(on_record(context.view, "list", path, read_dir(context.view, path)));
  ToolAnswer answer;
  bool is_cut = names.size() > kToolPageEntries;
  if (is_cut) names.resize(kToolPageEntries);
  answer.structured["names"] = names;
  answer.structured["is_complete"] = !is_cut;
  answer.text = dump_json_pretty(answer.structured["names"]);
  if (is_cut) answer.text += "\n(only the first 1000 names; readdir has pages)";
  return answer;
}

Result<ToolAnswer> vfs_delete(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "delete"));
  WARREN_TRY(on_record(context.view, "delete", path, remove(context.view, path)));
  return vfs_done(fmt::format("Deleted {}", path));
}

Result<ToolAnswer> vfs_exists(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "exists"));
  ToolAnswer answer;
  answer.structured["exists"] = WARREN_TRY(exists(context.view, path));
  return answer;
}

// The path names the checkpoint: "before", or "/state/checkpoints/before".
Result<ToolAnswer> vfs_checkpoint(ToolContext& context, const Json& arguments) {
  ToolAnswer answer = WARREN_TRY(take_named_checkpoint(context, base_name(text_argument(arguments, "path"))));
  answer.structured["success"] = true;
  return answer;
}

Result<ToolAnswer> vfs_restore(ToolContext& context, const Json& arguments) {
  std::vector<std::string> paths;
  // Without data everything is restored, so data of another kind must not count as none.
  if (const Json& data = data_of(arguments); !data.is_null()) {
    Error refused(Code::kInvalid, "'data' must be a list of at least one path to restore",
                  "Leave it out to restore everything.");
    if (!data.is_array() || data.empty()) return refused;
    for (const Json& one : data) {
      if (!one.is_string()) return refused;
      paths.push_back(one.get<std::string>());
    }
  }
  ToolAnswer answer = WARREN_TRY(restore_from_checkpoint(context, base_name(text_argument(arguments, "path")), paths));
  answer.structured["success"] = true;
  return answer;
}

Result<VectorQuery> asked_query(const Json& data) {
  VectorQuery query;
  const Json& embedding = data.is_object() && data.contains("embedding") ? data["embedding"] : data;
  if (!embedding.is_array()) {
    return Error(Code::kInvalid, "'data' must be an embedding, or {\"embedding\": […], \"top_k\": 5, \"filter\": {…}}");
  }
  query.embedding = WARREN_TRY(parse_embedding(embedding));
  if (!data.is_object()) return query;
  if (auto top = data.find("top_k"); top != data.end()) {  // no schema has checked it
    bool is_count = top->is_number_integer() && top->get<std::int64_t>() >= 1;
    if (!is_count) return Error(Code::kInvalid, "'top_k' must be a whole number of at least 1");
    query.top_k = std::min<std::size_t>(top->get<std::size_t>(), 100);
  }
  if (data.contains("filter")) query.filter = WARREN_TRY(parse_vector_filter(data["filter"]));
  return query;
}

Result<ToolAnswer> vfs_query(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "query"));
  VectorQuery query = WARREN_TRY(asked_query(data_of(arguments)));
  auto may_read = [&](const std::string& at, OtherNames names) { return context.view.may_read(at, names); };
  Result<std::vector<VectorMatch>> found = context.names.query(path, query, may_read);
  WARREN_TRY(context.view.record("query", path, found.ok() ? Status(Ok{}) : Status(found.error())));
  std::vector<VectorMatch> matches = WARREN_TRY(std::move(found));
  ToolAnswer answer;
  answer.structured["matches"] = Json::array();
  for (VectorMatch& match : matches) {
    Json one{
        {"score", match.score}, {"text", std::move(match.item.text)}, {"metadata", std::move(match.item.metadata)}};
    set_path_text(one, "path", match.item.id);
    answer.structured["matches"].push_back(std::move(one));
  }
  return answer;
}

struct NamedVfsOperation {
  std::string_view name;
  VfsOperation run;
};
constexpr std::array<NamedVfsOperation, 9> kVfsOperations{{{"read", vfs_read},
                                                           {"write", vfs_write},
                                                           {"list", vfs_list},
                                                           {"delete", vfs_delete},
                                                           {"checkpoint", vfs_checkpoint},
                                                           {"restore", vfs_restore},
                                                           {"exists", vfs_exists},
                                                           {"append", vfs_append},
                                                           {"query", vfs_query}}};

Result<ToolAnswer> vfs_operation_answer(ToolContext& context, const Json& arguments) {
  std::string operation = text_argument(arguments, "operation");
  for (const NamedVfsOperation& one : kVfsOperations) {
    if (one.name == operation) return one.run(context, arguments);
  }
  return Error(Code::kInvalid, fmt::format("no operation {}", quote(operation)));
}

Json vfs_operation_input() {
  return object_schema(
      {{"operation",
        choice_schema("", {"read", "write", "list", "delete", "checkpoint", "restore", "exists", "append", "query"})},
       {"path", text_schema("a path of the namespace; of checkpoint and restore, the checkpoint's name")},
       {"data",
        {{"description",
          "write, append: any JSON value; query: an embedding, or {embedding, top_k, filter}; restore: a list of "
          "paths"},
         {"additionalProperties", true}}},
       {"encoding", choice_schema("of data; default utf8", {"utf8", "base64"})}},
      {"operation", "path"});
}

Json vfs_operation_output() { return {{"type", "object"}, {"additionalProperties", true}}; }

}  // namespace

const Tool& vfs_operation_tool() {
  static constexpr Tool kTool{
      .name = "vfs_operation",
      .title = "Use the namespace",
      .group = "vfs",
      .description =
          "Perform VFS operation (read, write, list, delete, checkpoint, restore, exists, append, query). "
          "Values in .json files are JSON. /mem/working is scratch space, /mem/episodic only grows, "
          "/mem/semantic can be queried. Example: {\"operation\": \"write\", \"path\": "
          "\"/mem/working/task.json\", \"data\": {\"step\": 1}}",
      .hints = {.is_destructive = true},
      .input_schema = vfs_operation_input,
      .output_schema = vfs_operation_output,
      .call = [](ToolContext& context, const Json& arguments) {
        FileUse use = text_argument(arguments, "operation") == "read" ? FileUse::kRead : FileUse::kWrite;
        return file_answer(vfs_operation_answer(context, arguments), text_argument(arguments, "path"), use);
      }};
  return kTool;
}

}  // namespace warren
