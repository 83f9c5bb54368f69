// tools/list and tools/call.
#include <fmt/format.h>

#include "base/ascii.h"
#include "base/base64.h"
#include "base/bytes.h"
#include "base/path.h"
#include "mcp/conformance.h"
#include "mcp/consent.h"
#include "mcp/request.h"
#include "mcp/session.h"
#include "vfs/audit_fs.h"

namespace warren::mcp {
namespace {

Json annotations_of(const ToolHints& hints) {
  Json made{{"readOnlyHint", hints.is_read_only}};
  if (!hints.is_read_only) made["destructiveHint"] = hints.is_destructive;
  made["idempotentHint"] = hints.is_idempotent;
  made["openWorldHint"] = false;
  return made;
}

enum class SchemaOf { kArguments, kResult };

// A description that says nothing costs tokens; and so does, of a result, that there are no other members.
void drop_what_says_nothing(Json& schema, SchemaOf what) {
  if (!schema.is_structured()) return;
  if (schema.is_object() && schema.value("description", Json("-")) == "") schema.erase("description");
  if (what == SchemaOf::kResult && schema.is_object() && schema.value("additionalProperties", Json(true)) == false) {
    schema.erase("additionalProperties");
  }
  for (Json& member : schema) drop_what_says_nothing(member, what);
}

Json shown_schema(Json schema, SchemaOf what) {
  drop_what_says_nothing(schema, what);
  return schema;
}

Json describe_tool(const Tool& tool, Revision revision) {
  Json made{{"name", tool.name}};
  if (has_structure(revision)) made["title"] = tool.title;
  made["description"] = tool.description;
  made["inputSchema"] = shown_schema(tool.input_schema(), SchemaOf::kArguments);
  if (has_structure(revision)) made["outputSchema"] = shown_schema(tool.output_schema(), SchemaOf::kResult);
  if (has_annotations(revision)) made["annotations"] = annotations_of(tool.hints);
  return made;
}

// The id in "00-<32 digits>-<16 digits>-<2 digits>" (W3C Trace Context); empty if it is anything else.
std::string trace_of(const Json& meta) {
  std::string parent = find_text(meta, "traceparent").value_or("");
  if (parent.size() != 55 || parent[2] != '-' || parent[35] != '-') return {};
  std::string id = parent.substr(3, 32);
  for (char c : id) {
    if (!is_lower_hex_digit(c)) return {};
  }
  return id;
}

// Progress must grow from one notification to the next.
std::function<void(const ToolProgress&)> progress_sender(const Request& request) {
  auto token = meta_of(request.params).find("progressToken");
  const Json& meta = meta_of(request.params);
  if (token == meta.end() || !(token->is_string() || token->is_number_integer())) return {};
  return [&request, token = *token, last = -1.0](const ToolProgress& at) mutable {
    if (at.done <= last) return;
    last = at.done;
    Json params{{"progressToken", token}, {"progress", at.done}};
    if (at.total) params["total"] = *at.total;
    if (!at.message.empty()) params["message"] = at.message;
    request.notify("notifications/progress", std::move(params));
  };
}

Json text_content(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

Json blob_content(const ToolBlob& blob) {
  std::string data = encode_base64(as_bytes(blob.bytes));
  if (blob.mime.starts_with("image/") && blob.mime != "image/svg+xml") {
    return {{"type", "image"}, {"data", std::move(data)}, {"mimeType", blob.mime}};
  }
  return {{"type", "resource"}, {"resource", {{"uri", blob.uri}, {"mimeType", blob.mime}, {"blob", std::move(data)}}}};
}

Json call_result(ToolAnswer answer, Revision revision) {
  Json content = Json::array();
  if (answer.error) {
    // Without structuredContent, which would have to match the output schema.
    content.push_back(text_content(answer.text.empty() ? dump_json(to_json(*answer.error)) : answer.text));
    return {{"content", std::move(content)}, {"isError", true}};
  }
  content.push_back(text_content(answer.text.empty() ? dump_json(answer.structured) : std::move(answer.text)));
  if (answer.blob) content.push_back(blob_content(*answer.blob));
  Json result = json_object(6);
  result["content"] = std::move(content);
  if (has_structure(revision)) result["structuredContent"] = std::move(answer.structured);
  result["isError"] = false;
  return result;
}

}  // namespace

Answer list_tools(Request& request) {
  Result<std::string> cursor = read_cursor(request.params);
  if (!cursor.ok()) return invalid_params(cursor.error().message());
  const ServiceOptions& options = request.service.options();
  std::size_t from = 0;
  if (!cursor->empty()) {
    std::optional<std::size_t> at = parse_number<std::size_t>(*cursor);
    if (!at || *at > options.tools.size()) return invalid_params("'cursor' is not one of this list");
    from = *at;
  }
  std::size_t to = std::min(options.tools.size(), from + options.page_size);
  Json tools = Json::array();
  for (std::size_t i = from; i < to; ++i) {
    const Tool& tool = *options.tools[i];
    bool is_listed_already = !tool.alias_of.empty() && request.service.find_tool(tool.alias_of) != nullptr;
    if (!is_listed_already) tools.push_back(describe_tool(tool, request.revision));
  }
  Json result{{"tools", std::move(tools)}};
  if (options.is_conformance && to == options.tools.size()) {
    for (Json& one : conformance::tools()) result["tools"].push_back(std::move(one));
  }
  if (to < options.tools.size()) result["nextCursor"] = encode_cursor(std::to_string(to));
  return result;
}

Answer refuse_call(const Request& request, const Error& error) {
  ToolAnswer answer;
  answer.error = tool_error(error);
  return call_result(std::move(answer), request.revision);
}

Answer call_tool_method(Request& request) {
  std::optional<std::string> name = find_text(request.params, "name");
  if (!name) return invalid_params("'name' must be the name of a tool");
  const Service& service = request.service;
  if (service.options().is_conformance) {
    if (std::optional<Answer> fixture = conformance::call_tool(request, *name)) return *std::move(fixture);
  }
  const Tool* tool = service.find_tool(*name);
  if (tool == nullptr) return invalid_params(fmt::format("Unknown tool: {}", *name));
  // One that was cancelled while it waited is not made: nobody gets its answer, and the end would wait for it.
  if (*request.is_cancelled) return rpc_error(Error(Code::kUnavailable, "the call was cancelled"));
  static const Json kNoArguments = Json::object();
  const Json* arguments = &kNoArguments;
  if (auto given = request.params.find("arguments"); given != request.params.end()) {
    if (!given->is_object()) return invalid_params("'arguments' must be an object");
    arguments = &*given;
  }
  std::string trace = trace_of(meta_of(request.params));
  std::optional<TraceScope> scope;
  if (!trace.empty()) scope.emplace(trace);
  ToolContext context = service.tool_context(request.is_cancelled.get());
  context.progress = progress_sender(request);
  ConsentRound round(request);
  context.ask = round.asker();
  std::int64_t began = service.clock().monotonic_ns();
  ToolAnswer answer = call_tool(context, *tool, *arguments);
  if (const std::optional<Json>& question = round.find_question()) return *question;
  // Before it is acknowledged, a change survives a power cut.
  if (!tool->hints.is_read_only && !answer.error) {
    if (Status synced = service.sync(); !synced.ok()) {
      answer = ToolAnswer{};
      answer.error = tool_error(synced.error(), "It may be lost if the machine stops. Call it again.");
    }
  }
  log(request, answer.error ? "warning" : "debug",
      {{"tool", *name},
       {"duration_us", (service.clock().monotonic_ns() - began) / 1000},
       {"error", answer.error ? Json(answer.error->message) : Json(nullptr)}});
  return call_result(std::move(answer), request.revision);
}

}  // namespace warren::mcp
