// resources/list, resources/templates/list and resources/read.
#include <fmt/format.h>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/format_size.h"
#include "base/path.h"
#include "base/utf8.h"
#include "fs/path_ops.h"
#include "mcp/conformance.h"
#include "mcp/request.h"
#include "text/mime.h"
#include "tools/files/file_tools.h"
#include "tools/files/search_walk.h"
#include "vfs/on_record.h"

namespace warren::mcp {
namespace {

constexpr std::uint64_t kResourceBytesMax = std::uint64_t{8} << 20;
constexpr std::string_view kUnknownType = "application/octet-stream";
constexpr std::string_view kKeyScheme = "kv://";

Json describe_file(const Request& request, const WalkEntry& entry) {
  Json made{{"uri", vfs_uri(request.service.names().agent_id(), entry.path)},
            {"name", std::string(base_name(entry.path))}};
  std::string_view type = mime_type_by_name(entry.path);  // its content is not read for a list
  if (!type.empty()) made["mimeType"] = type;
  made["size"] = entry.attributes.size;
  if (has_structure(request.revision)) made["annotations"] = {{"lastModified", time_text(entry.attributes.mtime)}};
  return made;
}

RpcError missing_resource(const Request& request, const std::string& uri, const Error& why) {
  int code = has_sessions(request.revision) ? kResourceNotFound : kInvalidParams;
  return {.code = code, .message = fmt::format("Resource not found: {}", why.message()), .data = {{"uri", uri}}};
}

Answer read_failure(const Request& request, const std::string& uri, const Error& why) {
  bool is_missing = why.code() == Code::kNotFound || why.code() == Code::kNotDirectory || why.code() == Code::kStale;
  if (is_missing) return missing_resource(request, uri, why);
  RpcError error = rpc_error(why);
  error.data["uri"] = uri;
  if (why.code() == Code::kTooLarge) error.data["next_action_hint"] = "Use the tool read_file, which reads in parts.";
  if (why.code() == Code::kIsDirectory) error.data["next_action_hint"] = "Use the tool readdir, or resources/list.";
  return error;
}

Json contents_of(const std::string& uri, const std::string& path, const std::string& bytes) {
  Json one{{"uri", uri}, {"mimeType", media_type_of(path, bytes)}};
  if (is_utf8(bytes)) one["text"] = bytes;
  else one["blob"] = encode_base64(as_bytes(bytes));
  return {{"contents", Json::array({std::move(one)})}};
}

// kv://AGENT/KEY; the key is as it is, not encoded, after the first slash.
Answer read_key(const Request& request, const std::string& uri) {
  std::string_view rest = std::string_view(uri).substr(kKeyScheme.size());
  std::size_t slash = rest.find('/');
  Error missing(Code::kNotFound, fmt::format("there is no key {}", quote(uri)));
  bool is_ours = slash != rest.npos && rest.substr(0, slash) == request.service.names().agent_id() &&
                 request.service.serves_keys();
  if (!is_ours) return missing_resource(request, uri, missing);
  std::string_view key = rest.substr(slash + 1);
  Status allowed = check_key(request.service.view(), Rights::kRead, key);
  if (!allowed.ok()) return rpc_error(allowed.error());
  Result<std::optional<std::string>> value = request.service.agent().kv().find(key);
  if (!value.ok()) return rpc_error(value.error());
  if (!*value) return missing_resource(request, uri, missing);
  if ((*value)->size() > kResourceBytesMax) {
    return rpc_error(
        Error(Code::kTooLarge, fmt::format("the value has {}, more than the limit of {}", format_size((*value)->size()),
                                           format_size(kResourceBytesMax))));
  }
  return contents_of(uri, "value.json", **value);
}

}  // namespace

Answer list_resources(Request& request) {
  Result<std::string> cursor = read_cursor(request.params);
  if (!cursor.ok()) return invalid_params(cursor.error().message());
  Json found = Json::array();
  std::string last;
  bool has_more = false;
  std::size_t limit = request.service.options().page_size;
  Status walked = !request.service.serves_files()
                      ? Status(Ok{})
                      : walk_listed(request.service.view(), request.service.root(), {.after = *cursor},
                                    [&](const WalkEntry& entry) -> Result<WalkNext> {
                                      if (*request.is_cancelled) return WalkNext::kStop;
                                      if (!entry.attributes.is_file()) return WalkNext::kContinue;
                                      if (found.size() == limit) {
                                        has_more = true;
                                        return WalkNext::kStop;
                                      }
                                      found.push_back(describe_file(request, entry));
                                      last = entry.path;
                                      return WalkNext::kContinue;
                                    });
  if (!walked.ok()) return rpc_error(walked.error());
  if (Status noted = request.service.view().check_recorded(); !noted.ok()) return rpc_error(noted.error());
  if (request.service.options().is_conformance && !has_more) {
    for (Json& one : conformance::resources()) found.push_back(std::move(one));
  }
  Json result{{"resources", std::move(found)}};
  if (has_more) result["nextCursor"] = encode_cursor(last);
  return result;
}

Answer list_templates(Request& request) {
  Json list = Json::array();
  if (request.service.serves_files()) {
    list.push_back(
        {{"uriTemplate", "vfs://{agent_id}/{path}"},
         {"name", "Agent VFS"},
         {"mimeType", kUnknownType},
         {"description", "A file of the agent's namespace: memory, state, policy, messages and its own files"}});
  }
  if (request.service.serves_keys()) {
    list.push_back({{"uriTemplate", "kv://{agent_id}/{key}"},
                    {"name", "Agent keys"},
                    {"mimeType", "application/json"},
                    {"description", "A value of the agent's key-value store"}});
  }
  if (request.service.options().is_conformance) {
    for (Json& one : conformance::templates()) list.push_back(std::move(one));
  }
  return Json{{"resourceTemplates", std::move(list)}};
}

Answer read_resource(Request& request) {
  std::optional<std::string> uri = find_text(request.params, "uri");
  if (!uri) return invalid_params("'uri' must be a string");
  if (request.service.options().is_conformance) {
    if (std::optional<Answer> fixture = conformance::read_resource(*uri)) return *std::move(fixture);
  }
  if (uri->starts_with(kKeyScheme)) return read_key(request, *uri);
  Result<std::string> path = resource_path(request, *uri, "read");
  if (!path.ok()) return read_failure(request, *uri, path.error());
  NamespaceView& view = request.service.view();
  Result<std::string> bytes =
      on_record(view, "read", *path, read_file(view, *path, {.size_bytes_max = kResourceBytesMax}));
  if (!bytes.ok()) return read_failure(request, *uri, bytes.error());
  if (Status noted = request.service.view().check_recorded(); !noted.ok()) return rpc_error(noted.error());
  return contents_of(*uri, *path, *bytes);
}

}  // namespace warren::mcp
