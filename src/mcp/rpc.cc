#include "mcp/rpc.h"

#include <fmt/format.h>

#include "base/path.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kIdBytes = 1024;
constexpr std::size_t kMethodBytes = 256;

bool is_valid_id(const Json& id) {
  return id.is_number_integer() || (id.is_string() && id.get_ref<const std::string&>().size() <= kIdBytes);
}

BadMessage invalid_request(const Json& id, std::string message) {
  return {.id = is_valid_id(id) ? id : Json(nullptr),
          .error = {.code = kInvalidRequest, .message = std::move(message)}};
}

}  // namespace

std::variant<RpcMessage, BadMessage> read_message(const Json& value) {
  if (!value.is_object()) return invalid_request(nullptr, "a message must be a JSON object");
  auto id = value.find("id");
  Json given = id == value.end() ? Json(nullptr) : *id;
  auto version = value.find("jsonrpc");
  if (version == value.end() || *version != "2.0") return invalid_request(given, "'jsonrpc' must be \"2.0\"");
  RpcMessage message;
  auto method = value.find("method");
  if (method == value.end()) {
    bool is_response = value.contains("result") != value.contains("error") && is_valid_id(given);
    if (!is_response) return invalid_request(given, "a message needs a 'method'");
    message.kind = RpcMessage::Kind::kResponse;
    message.id = std::move(given);
    if (auto result = value.find("result"); result != value.end()) message.result = *result;
    return message;
  }
  if (!method->is_string()) return invalid_request(given, "'method' must be a string");
  message.method = method->get<std::string>();
  if (message.method.size() > kMethodBytes) return invalid_request(given, "'method' is too long");
  if (id == value.end()) message.kind = RpcMessage::Kind::kNotification;
  else if (!is_valid_id(given)) return invalid_request(given, "'id' must be a string or a whole number of 64 bits");
  message.id = std::move(given);
  auto params = value.find("params");
  if (params == value.end()) return message;
  if (!params->is_object()) {
    if (message.kind == RpcMessage::Kind::kNotification) return message;  // never answered
    return BadMessage{.id = message.id, .error = {.code = kInvalidParams, .message = "'params' must be an object"}};
  }
  message.params = *params;
  return message;
}

Json result_message(const Json& id, Json result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

Json error_message(const Json& id, const RpcError& error) {
  Json body{{"code", error.code}, {"message", error.message}};
  if (!error.data.is_null()) body["data"] = error.data;
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(body)}};
}

Json answer_message(const Json& id, Answer answer) {
  if (auto* error = std::get_if<RpcError>(&answer)) return error_message(id, *error);
  return result_message(id, std::get<Json>(std::move(answer)));
}

Json request_message(const Json& id, std::string_view method, Json params) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

Json notification_message(std::string_view method, Json params) {
  Json message{{"jsonrpc", "2.0"}, {"method", method}};
  if (!params.empty()) message["params"] = std::move(params);
  return message;
}

}  // namespace warren::mcp
