// The tool of the specification's section 5.3 (RFC-002), with restore, exists, append and query.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "agent/semantic/semantic_index.h"
#include "agent/semantic/semantic_text.h"
#include "backends/vector/vector_item.h"
#include "base/base64.h"
#include "base/path.h"
#include "base/utf8.h"
#include "fs/path_ops.h"
#include "tools/agent/checkpoint_tools.h"
#include "tools/context/context_support.h"
#include "tools/files/file_tools.h"
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

// Null: none is configured.
Result<Embedder*> embedder_of(const ToolContext& context) {
  if (context.open_embedder) return context.open_embedder();
  return static_cast<Embedder*>(nullptr);
}

// What lower layers advise is for people at a shell.
Error for_semantic_memory(const Error& error) {
  return Error(error.code(), error.message(),
               R"(Store an item: vfs_operation {"operation": "write", "path": "/mem/semantic/cat.json", "data": )"
               R"({"text": "the cat sleeps"}}. Without an embedder it also needs "embedding": a list of numbers. )"
               "write_file stores anything else, which queries do not find.");
}

Result<ToolAnswer> vfs_write(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "write"));
  ItemToStore item { .value = WARREN_TRY(data_to_store(path, arguments)) };
  if (needs_embedding(path, item.value) && WARREN_TRY(may_write_item(context.view, path))) {
    item = embed_item(std::move(item.value), embedder_of(context));
    // A service may take minutes, and something newer may be there by now.
    if (is_cancelled(context)) return cancelled_error();
  }
  Status written =
      context.names.write(context.view, path, item.value, item.as_is ? AsIs::kYes : AsIs::kNo, std::nullopt);
  bool is_no_item = !written.ok() && written.error().code() == Code::kInvalid && path.starts_with(kSemanticMemory);
  if (is_no_item) return for_semantic_memory(written.error());
  WARREN_TRY(std::move(written));
  std::string note;
  if (item.why_not) {
    note =
        fmt::format("; it has no embedding yet and gets one with a later query by text: {}", item.why_not->message());
  }
  return vfs_done(fmt::format("Wrote {} bytes to {}{}", item.value.size(), path, note));
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

// What to look for: in words, or as an embedding.
struct AskedQuery {
  std::optional<std::string> text;
  Json filter;
  VectorQuery query;
};

Result<AskedQuery> asked_query(const Json& data) {
  AskedQuery asked;
  if (data.is_string()) asked.text = data.get<std::string>();
  if (data.is_array()) asked.query.embedding = WARREN_TRY(parse_embedding(data));
  if (data.is_string() || data.is_array()) return asked;
  bool is_by_text = data.is_object() && data.contains("text") && data["text"].is_string();
  bool is_by_numbers = data.is_object() && data.contains("embedding");
  if (is_by_text == is_by_numbers) {
    return Error(Code::kInvalid, "'data' must have either a 'text' or an 'embedding' to look for",
                 R"(Ask in words: vfs_operation {"operation": "query", "path": "/mem/semantic", "data": )"
                 R"({"text": "where does the cat sleep", "top_k": 5}})");
  }
  if (is_by_text) asked.text = data["text"].get<std::string>();
  else asked.query.embedding = WARREN_TRY(parse_embedding(data["embedding"]));
  if (auto top = data.find("top_k"); top != data.end()) {  // no schema has checked it
    bool is_count = top->is_number_integer() && top->get<std::int64_t>() >= 1;
    if (!is_count) return Error(Code::kInvalid, "'top_k' must be a whole number of at least 1", "Give \"top_k\": 5.");
    asked.query.top_k = std::min<std::size_t>(top->get<std::size_t>(), 100);
  }
  if (data.contains("filter")) asked.filter = data["filter"];
  return asked;
}

// The embedder for a question in words. Whatever is wrong with it, a model can go on without.
Result<Embedder*> question_embedder(const ToolContext& context) {
  constexpr std::string_view kWithout =
      R"(Look for words instead: grep {"path": "/mem/semantic", "pattern": "cat"}; or give "data": {"embedding": [numbers]}.)";
  Result<Embedder*> opened = embedder_of(context);
  if (!opened.ok()) return std::move(opened).take_error().with_hint(kWithout);
  if (*opened != nullptr) return *opened;
  return Error(Code::kUnsupported, "a query by text needs an embedder, and none is configured here",
               std::string(kWithout));
}

Result<std::vector<VectorMatch>> found_items(ToolContext& context, const std::string& path, AskedQuery& asked) {
  auto may_read = [&](const std::string& at, OtherNames names) { return context.view.may_read(at, names); };
  Embedder* embedder = nullptr;
  if (asked.text) {
    embedder = WARREN_TRY(question_embedder(context));
    asked.query.embedding = WARREN_TRY(embed_question(*embedder, *asked.text, asked.filter));
  }
  if (!asked.filter.is_null()) asked.query.filter = WARREN_TRY(parse_vector_filter(asked.filter));
  if (embedder == nullptr) return context.names.query(path, asked.query, may_read);
  return context.names.query_text(path, asked.query, may_read, *embedder);
}

Result<ToolAnswer> vfs_query(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "query"));
  AskedQuery asked = WARREN_TRY(asked_query(data_of(arguments)));
  Result<std::vector<VectorMatch>> found = found_items(context, path, asked);
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

std::string vfs_call_text(std::string_view operation, std::string_view path) {
  return fmt::format("vfs_operation {}", dump_json(Json{{"operation", operation}, {"path", path}}));
}

// In the words of this tool, which may be the only one that is offered. Empty: as for files.
std::string vfs_hint(const Error& error, std::string_view path) {
  if (error.hint() == kListCheckpointsHint) {
    return fmt::format("List the checkpoints: {}", vfs_call_text("list", kCheckpointDir));
  }
  if (!error.hint().empty()) return {};
  std::string_view parent = path.starts_with('/') && path != "/" ? directory_of(path) : "/";
  switch (error.code()) {
    case Code::kNotFound: return fmt::format("See what exists: {}", vfs_call_text("list", parent));
    case Code::kIsDirectory: return fmt::format("It is a directory. List it: {}", vfs_call_text("list", path));
    case Code::kNotDirectory: return fmt::format("If it is a file, read it: {}", vfs_call_text("read", path));
    default: return {};
  }
}

ToolAnswer vfs_answer(ToolContext& context, const Json& arguments) {
  std::string operation = text_argument(arguments, "operation");
  std::string path = text_argument(arguments, "path");
  Result<ToolAnswer> made = vfs_operation_answer(context, arguments);
  std::string hint = made.ok() ? "" : vfs_hint(made.error(), path);
  if (!hint.empty()) made = std::move(made).take_error().with_hint(hint);
  return file_answer(std::move(made), path, operation == "read" ? FileUse::kRead : FileUse::kWrite);
}

Json vfs_operation_input() {
  return object_schema(
      {{"operation",
        choice_schema("", {"read", "write", "list", "delete", "checkpoint", "restore", "exists", "append", "query"})},
       {"path", text_schema("a path of the namespace; of checkpoint and restore, the checkpoint's name")},
       {"data",
        {{"description",
          "write, append: any JSON value; in /mem/semantic an item {text, metadata}; query: a question as text, or "
          "{text or embedding, top_k, filter}; restore: a list of paths"},
         {"additionalProperties", true}}},
       {"encoding", choice_schema("of data; default utf8", {"utf8", "base64"})}},
      {"operation", "path"});
}

Json any_object(std::string_view description) {
  return {{"type", "object"}, {"description", description}, {"additionalProperties", true}};
}

Json vfs_operation_output() {
  Json any{{"description", "read: the content; a value if it is JSON, null if it follows as a blob"},
           {"additionalProperties", true}};
  Json match = object_schema({{"path", text_schema("")},
                              {"path_base64", text_schema("if it is not UTF-8")},
                              {"score", {{"type", "number"}}},
                              {"text", text_schema("")},
                              {"metadata", any_object("")}},
                             {"path", "score", "text", "metadata"});
  return object_schema({{"data", std::move(any)},
                        {"success", flag_schema("write, append, delete, checkpoint, restore")},
                        {"names", list_schema("list", text_schema(""))},
                        {"is_complete", flag_schema("list; false: readdir has pages")},
                        {"exists", flag_schema("exists")},
                        {"checkpoint", checkpoint_schema()},
                        {"restored", any_object("restore: such a checkpoint")},
                        {"before", any_object("restore: one of the state before")},
                        {"matches", list_schema("query: nearest first", std::move(match))}},
                       {});
}

}  // namespace

const Tool& vfs_operation_tool() {
  static constexpr Tool kTool{
      .name = "vfs_operation",
      .title = "Use the namespace",
      .group = "vfs",
      .description =
          "Perform VFS operation (read, write, list, delete, checkpoint, restore, exists, append, query) on a path. "
          "Use "
          "it for memory: /mem/working is scratch space, /mem/episodic only grows, /mem/semantic is queried by "
          "meaning; "
          "for files the other tools say more. Values in .json files are JSON. Returns what the operation gives: data, "
          "names, exists, matches or success. Example: {\"operation\": \"query\", \"path\": \"/mem/semantic\", "
          "\"data\": "
          "{\"text\": \"what does the user like\"}}",
      .hints = {.is_destructive = true},
      .input_schema = vfs_operation_input,
      .output_schema = vfs_operation_output,
      .call = vfs_answer};
  return kTool;
}

}  // namespace warren
