// JSON-RPC 2.0 as the Model Context Protocol uses it: messages, and the errors that answer them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"

namespace warren::mcp {

// Codes of JSON-RPC, and those of the protocol. Never made up elsewhere.
inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;
inline constexpr int kOverloaded = -32000;        // of our own: nothing was done, and it may be tried again
inline constexpr int kResourceNotFound = -32002;  // only before 2026-07-28, which has kInvalidParams for it
inline constexpr int kHeaderMismatch = -32020;
inline constexpr int kMissingCapability = -32021;
inline constexpr int kUnsupportedVersion = -32022;

struct RpcError {
  int code = kInternalError;
  std::string message;
  Json data = nullptr;  // null: none
};

// What a request is answered with.
using Answer = std::variant<Json, RpcError>;

struct RpcMessage {
  enum class Kind { kRequest, kNotification, kResponse };
  Kind kind = Kind::kRequest;
  Json id = nullptr;  // a string or a whole number; null for a notification
  std::string method;
  Json params = Json::object();
  std::optional<Json> result = std::nullopt;  // of a response; nullopt: it is an error
};

// A message, or the error to answer it with; the id is then null, unless it could be read.
struct BadMessage {
  Json id = nullptr;
  RpcError error;
};
std::variant<RpcMessage, BadMessage> read_message(const Json& value);

Json result_message(const Json& id, Json result);
Json error_message(const Json& id, const RpcError& error);
Json answer_message(const Json& id, Answer answer);
Json request_message(const Json& id, std::string_view method, Json params);
Json notification_message(std::string_view method, Json params);

}  // namespace warren::mcp
