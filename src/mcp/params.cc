// What methods share about their params: texts, cursors, URIs, errors.
#include <fmt/format.h>

#include "base/ascii.h"
#include "base/base64.h"
#include "base/bytes.h"
#include "base/path.h"
#include "mcp/request.h"
#include "tools/files/file_tools.h"

namespace warren::mcp {
namespace {

constexpr std::string_view kScheme = "vfs://";

int digit_of(char c) { return is_digit(c) ? c - '0' : to_lower(c) - 'a' + 10; }

// %XX to bytes. kInvalid.
Result<std::string> decode_percent(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    if (i + 2 >= text.size() || !is_hex_digit(text[i + 1]) || !is_hex_digit(text[i + 2])) {
      return Error(Code::kInvalid, fmt::format("{} has a '%' without two hex digits", quote(text)));
    }
    bytes += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
    i += 2;
  }
  return bytes;
}

}  // namespace

std::optional<std::string> find_text(const Json& params, const char* name) {
  auto found = params.find(name);
  if (found == params.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

RpcError invalid_params(std::string message) { return {.code = kInvalidParams, .message = std::move(message)}; }

RpcError rpc_error(const Error& error) {
  RpcError made{.code = kInternalError, .message = error.message()};
  if (error.code() == Code::kInvalid || error.code() == Code::kNameTooLong) made.code = kInvalidParams;
  made.data = {{"error_type", name_of(error.code())}};
  if (!error.hint().empty()) made.data["next_action_hint"] = error.hint();
  return made;
}

Result<std::string> resource_path(const Request& request, const std::string& uri, std::string_view op) {
  std::string_view rest = uri;
  std::string path;
  if (!request.service.serves_files()) {
    return Error(Code::kNotFound, fmt::format("there is no resource {}: this server has no files", quote(uri)));
  }
  if (rest.starts_with(kScheme)) {
    rest.remove_prefix(kScheme.size());
    std::size_t slash = rest.find('/');
    std::string agent = WARREN_TRY(decode_percent(rest.substr(0, slash)));
    if (agent != request.service.names().agent_id()) {
      return Error(Code::kNotFound, fmt::format("there is no resource {}: this server is for agent {}", quote(uri),
                                                quote(request.service.names().agent_id())));
    }
    path = slash == rest.npos ? "/" : WARREN_TRY(decode_percent(rest.substr(slash)));
  } else if (rest.starts_with('/')) {
    path = uri;
  } else {
    return Error(Code::kInvalid, fmt::format("{} is not a resource of this server", quote(uri)),
                 "Resources are vfs://AGENT/PATH; resources/list has them.");
  }
  return request.service.view().resolve(*request.service.names(), path, op);
}

Result<std::string> watched_path(const Request& request, const std::string& uri) {
  std::string path = WARREN_TRY(resource_path(request, uri, "read"));
  NamespaceView& view = request.service.view();
  if (is_hidden_in_project(request.service.agent(), path)) {
    return Error(Code::kNotFound, fmt::format("there is no resource {}", quote(uri)));
  }
  if (WARREN_TRY(view.may(Rights::kList, path))) return path;
  WARREN_TRY(view.check_path(Rights::kRead, path, "read"));
  return path;
}

Result<std::string> read_cursor(const Json& params) {
  auto found = params.find("cursor");
  if (found == params.end()) return std::string();
  std::optional<std::string> after = decode_base64(found->is_string() ? found->get<std::string>() : "!");
  if (!after || after->empty()) return Error(Code::kInvalid, "'cursor' is not one that this server has returned");
  return *std::move(after);
}

std::string encode_cursor(std::string_view after) { return encode_base64(as_bytes(after)); }

}  // namespace warren::mcp
