// Fixtures for conformance suites of 2026-07-28: results that ask for input, and are asked again with it.
#include <array>

#include <fmt/format.h>

#include "base/bytes.h"
#include "crypto/digest.h"
#include "mcp/conformance.h"
#include "mcp/session.h"

namespace warren::mcp::conformance {
namespace {

Json form_request(std::string_view message, const char* member, const char* type) {
  Json schema{{"type", "object"}, {"properties", {{member, {{"type", type}}}}}, {"required", Json::array({member})}};
  return {{"method", "elicitation/create"}, {"params", {{"message", message}, {"requestedSchema", std::move(schema)}}}};
}

Json model_request(std::string_view text, int tokens) {
  Json message{{"role", "user"}, {"content", {{"type", "text"}, {"text", text}}}};
  return {{"method", "sampling/createMessage"},
          {"params", {{"messages", Json::array({std::move(message)})}, {"maxTokens", tokens}}}};
}

Json roots_request() { return {{"method", "roots/list"}, {"params", Json::object()}}; }

// What is asked in one round.
using Requests = Json (*)(const Json& capabilities);
enum class WithState { kNo, kYes };
struct Rounds {
  std::string_view name;
  WithState state;
  std::vector<Requests> rounds;
};

Json name_request(const Json&) { return {{"user_name", form_request("What is your name?", "name", "string")}}; }
Json confirm_request(const Json&) { return {{"confirm", form_request("Please confirm", "ok", "boolean")}}; }

Json declared_requests(const Json& capabilities) {
  Json asked = Json::object();
  if (capabilities.contains("elicitation")) asked["user_name"] = form_request("What is your name?", "name", "string");
  if (capabilities.contains("sampling")) asked["greeting"] = model_request("Generate a greeting", 50);
  if (capabilities.contains("roots")) asked["client_roots"] = roots_request();
  return asked;
}

const std::vector<Rounds>& all_rounds() {
  static const std::vector<Rounds> kAll{
      {"test_input_required_result_elicitation", WithState::kNo, {name_request}},
      {"test_streaming_elicitation", WithState::kNo, {name_request}},
      {"test_input_required_result_sampling", WithState::kNo, {[](const Json&) {
         return Json{{"capital_question", model_request("What is the capital of France?", 100)}};
       }}},
      {"test_input_required_result_list_roots", WithState::kNo, {[](const Json&) {
         return Json{{"client_roots", roots_request()}};
       }}},
      {"test_input_required_result_request_state", WithState::kYes, {confirm_request}},
      {"test_input_required_result_tampered_state", WithState::kYes, {confirm_request}},
      {"test_input_required_result_capabilities", WithState::kNo, {declared_requests}},
      {"test_input_required_result_multiple_inputs", WithState::kYes, {[](const Json&) {
         return Json{{"user_name", form_request("What is your name?", "name", "string")},
                     {"greeting", model_request("Generate a greeting", 50)},
                     {"client_roots", roots_request()}};
       }}},
      {"test_input_required_result_multi_round",
       WithState::kYes,
       {[](const Json&) {
          return Json{{"step1", form_request("Step 1: What is your name?", "name", "string")}};
        },
        [](const Json&) {
          return Json{{"step2", form_request("Step 2: What is your favorite color?", "color", "string")}};
        }}}};
  return kAll;
}

// The state after a round. It says no more than which round that was, so nothing in it is secret.
std::string state_after(const Rounds& fixture, std::size_t round) {
  return sha256_hex(as_bytes(fmt::format("{} {}", fixture.name, round)));
}

Json input_required(const Rounds& fixture, std::size_t round, const Json& capabilities) {
  Json result{{"resultType", "input_required"}, {"inputRequests", fixture.rounds[round](capabilities)}};
  if (fixture.state == WithState::kYes) result["requestState"] = state_after(fixture, round);
  return result;
}

// Whether every request of this round has an answer of the right kind.
bool has_answers(const Json& requests, const Json& given) {
  if (!given.is_object()) return false;
  for (const auto& [key, request] : requests.items()) {
    auto answer = given.find(key);
    if (answer == given.end() || !answer->is_object()) return false;
  }
  return true;
}

Answer next_round(const Rounds& fixture, const Json& params) {
  Json capabilities = meta_of(params).value(kMetaCapabilities, Json::object());
  Json given = params.value("inputResponses", Json(nullptr));
  std::size_t round = 0;
  if (fixture.state == WithState::kYes && params.contains("requestState")) {
    std::string state = find_text(params, "requestState").value_or("");
    while (round < fixture.rounds.size() && state != state_after(fixture, round)) ++round;
    if (round == fixture.rounds.size())
      return invalid_params("'requestState' is not one that this server has returned");
  }
  Json requests = fixture.rounds[round](capabilities);
  bool is_answered =
      has_answers(requests, given) && (fixture.state == WithState::kNo || params.contains("requestState"));
  if (!is_answered) return input_required(fixture, round, capabilities);
  if (round + 1 < fixture.rounds.size()) return input_required(fixture, round + 1, capabilities);
  std::string text = fmt::format("state-ok: {}", dump_json(given));
  return Json{{"content", Json::array({{{"type", "text"}, {"text", std::move(text)}}})}, {"isError", false}};
}

constexpr std::string_view kNeedsSampling = "test_missing_capability";
constexpr std::string_view kLogs = "test_logging_tool";

Answer needs_sampling(const Json& params) {
  Json capabilities = meta_of(params).value(kMetaCapabilities, Json::object());
  if (!capabilities.contains("sampling")) {
    return RpcError{.code = kMissingCapability,
                    .message = "this needs a capability that the client has not declared: sampling",
                    .data = {{"requiredCapabilities", {{"sampling", Json::object()}}}}};
  }
  return Json{{"content", Json::array({{{"type", "text"}, {"text", "The capability is there."}}})}, {"isError", false}};
}

Json without_arguments() { return {{"type", "object"}, {"properties", Json::object()}}; }

}  // namespace

void add_round_tools(Json& list) {
  auto add = [&](std::string_view name) {
    list.push_back({{"name", name}, {"description", "A fixture"}, {"inputSchema", without_arguments()}});
  };
  for (const Rounds& one : all_rounds()) add(one.name);
  add(kNeedsSampling);
  add(kLogs);
}

std::optional<Answer> call_round_tool(const Request& request, const std::string& name) {
  if (name == kLogs) {
    log(request, "info", "A message of the logging tool");
    return Json{{"content", Json::array({{{"type", "text"}, {"text", "Logged."}}})}, {"isError", false}};
  }
  if (has_sessions(request.revision)) return std::nullopt;
  if (name == kNeedsSampling) return needs_sampling(request.params);
  for (const Rounds& one : all_rounds()) {
    if (one.name == name) return next_round(one, request.params);
  }
  return std::nullopt;
}

std::optional<Answer> get_round_prompt(const Request& request, const std::string& name) {
  if (has_sessions(request.revision) || name != "test_input_required_result_prompt") return std::nullopt;
  Json asked{{"user_context", form_request("What context should the prompt use?", "context", "string")}};
  Json given = request.params.value("inputResponses", Json(nullptr));
  if (!has_answers(asked, given)) return Json{{"resultType", "input_required"}, {"inputRequests", std::move(asked)}};
  Json content{{"type", "text"}, {"text", fmt::format("The context: {}", dump_json(given["user_context"]))}};
  return Json{{"description", "A fixture"},
              {"messages", Json::array({{{"role", "user"}, {"content", std::move(content)}}})}};
}

}  // namespace warren::mcp::conformance
