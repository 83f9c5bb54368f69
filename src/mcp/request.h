// One request of a client while it is served, and the table of methods.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "mcp/revision.h"
#include "mcp/rpc.h"
#include "mcp/service.h"

namespace warren::mcp {

class Session;

// Where messages to a client go. Thread-safe; must not block for ever.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void send(const Json& message) = 0;
  virtual bool is_crowded() { return false; }  // too much was sent and not read: no more calls are to be made
};

struct Request {
  Service& service;
  Session& session;
  Revision revision;
  Json id;
  std::string method;
  Json params;
  std::shared_ptr<Outlet> outlet;                   // shared with what outlives the request: subscriptions
  std::shared_ptr<std::atomic<bool>> is_cancelled;  // shared with the session, which sets it
  std::shared_ptr<void> long_place = {};            // of a long call (Service::begin_long_call), until it is answered

  // A notification that belongs to this request; none once it is cancelled.
  void notify(std::string_view method, Json params) const;
};

// The levels of logging, from the least important one.
std::optional<int> find_log_level(std::string_view name);
// Sends it if the client has asked for messages of this level.
void log(const Request& request, std::string_view level, Json data);

using Method = Answer (*)(Request&);

struct MethodEntry {
  std::string_view name;
  Method call;
  bool is_in_sessions = true;      // up to 2025-11-25
  bool is_stateless = true;        // from 2026-07-28 on
  std::optional<int> ttl_ms = {};  // its results may be cached for so long
};
const MethodEntry* find_method(std::string_view name, Revision revision);

// The methods, by what they are about.
Answer list_tools(Request& request);
Answer call_tool_method(Request& request);
// The answer of a call that is not made.
Answer refuse_call(const Request& request, const Error& error);
Answer list_resources(Request& request);
Answer list_templates(Request& request);
Answer read_resource(Request& request);
Answer list_prompts(Request& request);
Answer get_prompt(Request& request);
Answer complete(Request& request);

// For methods. A string among the params; nullopt if it is missing or something else.
std::optional<std::string> find_text(const Json& params, const char* name);
RpcError invalid_params(std::string message);
RpcError rpc_error(const Error& error);
// The path that a resource's URI names in this agent's namespace: vfs://AGENT/PATH, or a plain /PATH. kInvalid,
// kNotFound for another agent.
Result<std::string> resource_path(const Request& request, const std::string& uri, std::string_view op);
// The same of a resource that the client wants to watch: also kDenied if it may neither be read nor listed.
Result<std::string> watched_path(const Request& request, const std::string& uri);
// Where a page begins: what encode_cursor was given. kInvalid.
Result<std::string> read_cursor(const Json& params);
std::string encode_cursor(std::string_view after);

}  // namespace warren::mcp
