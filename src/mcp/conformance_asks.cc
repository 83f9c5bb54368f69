// Fixtures for conformance suites that ask the client for something: only in sessions.
#include <array>

#include <fmt/format.h>

#include "mcp/conformance.h"
#include "mcp/session.h"

namespace warren::mcp::conformance {
namespace {

Json one_text(const std::string& text, bool is_error) {
  return {{"content", Json::array({{{"type", "text"}, {"text", text}}})}, {"isError", is_error}};
}

std::string argument_of(const Request& request, const char* name) {
  Json arguments = request.params.value("arguments", Json::object());
  return arguments.is_object() ? find_text(arguments, name).value_or("") : "";
}

// The schema of a form with these members.
Json form(Json properties, Json required = Json::array()) {
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

Json titled(std::initializer_list<std::pair<const char*, const char*>> values) {
  Json list = Json::array();
  for (const auto& [value, title] : values) list.push_back({{"const", value}, {"title", title}});
  return list;
}

Json defaults_form() {
  Json states = Json::array({"active", "inactive", "pending"});
  return form({{"name", {{"type", "string"}, {"default", "John Doe"}}},
               {"age", {{"type", "integer"}, {"default", 30}}},
               {"score", {{"type", "number"}, {"default", 95.5}}},
               {"status", {{"type", "string"}, {"enum", std::move(states)}, {"default", "active"}}},
               {"verified", {{"type", "boolean"}, {"default", true}}}});
}

Json choices_form() {
  Json options = Json::array({"option1", "option2", "option3"});
  Json titles = titled({{"value1", "First Option"}, {"value2", "Second Option"}, {"value3", "Third Option"}});
  Json choices = titled({{"value1", "First Choice"}, {"value2", "Second Choice"}, {"value3", "Third Choice"}});
  return form({{"untitledSingle", {{"type", "string"}, {"enum", options}}},
               {"titledSingle", {{"type", "string"}, {"oneOf", std::move(titles)}}},
               {"legacyEnum",
                {{"type", "string"},
                 {"enum", Json::array({"opt1", "opt2", "opt3"})},
                 {"enumNames", Json::array({"Option One", "Option Two", "Option Three"})}}},
               {"untitledMulti", {{"type", "array"}, {"items", {{"type", "string"}, {"enum", options}}}}},
               {"titledMulti", {{"type", "array"}, {"items", {{"anyOf", std::move(choices)}}}}}});
}

Json elicited(const Request& request, const std::string& message, Json schema, std::string_view begin) {
  if (!request.session.client_capabilities().contains("elicitation")) {
    return one_text("this client cannot ask its user", true);
  }
  Result<Json> answer = request.session.ask_client(request, "elicitation/create",
                                                   {{"message", message}, {"requestedSchema", std::move(schema)}});
  if (!answer.ok()) return one_text(answer.error().message(), true);
  return one_text(fmt::format("{}: action={}, content={}", begin, find_text(*answer, "action").value_or("none"),
                              dump_json(answer->value("content", Json::object()))),
                  false);
}

Json sampled(const Request& request) {
  if (!request.session.client_capabilities().contains("sampling")) {
    return one_text("this client cannot ask a model", true);
  }
  Json content{{"type", "text"}, {"text", argument_of(request, "prompt")}};
  Json params{{"messages", Json::array({{{"role", "user"}, {"content", std::move(content)}}})}, {"maxTokens", 100}};
  Result<Json> answer = request.session.ask_client(request, "sampling/createMessage", std::move(params));
  if (!answer.ok()) return one_text(answer.error().message(), true);
  Json got = answer->value("content", Json::object());
  return one_text(fmt::format("LLM response: {}", got.is_object() ? find_text(got, "text").value_or("") : ""), false);
}

struct Asking {
  std::string_view name;
  std::string_view argument;  // its only one, a text; "": none
  Json (*call)(const Request&);
};
constexpr std::array<Asking, 4> kAsking{{
    {"test_sampling", "prompt", sampled},
    {"test_elicitation", "message",
     [](const Request& request) {
       Json text{{"type", "string"}, {"description", "User's response"}};
       return elicited(request, argument_of(request, "message"),
                       form({{"username", text}, {"email", text}}, Json::array({"username", "email"})),
                       "User response");
     }},
    {"test_elicitation_sep1034_defaults", "",
     [](const Request& request) {
       return elicited(request, "Please review and update the form fields with defaults", defaults_form(),
                       "Elicitation completed");
     }},
    {"test_elicitation_sep1330_enums", "",
     [](const Request& request) {
       return elicited(request, "Please select options from the enum fields", choices_form(), "Elicitation completed");
     }},
}};

}  // namespace

void add_asking_tools(Json& list) {
  for (const Asking& one : kAsking) {
    Json schema{{"type", "object"}, {"properties", Json::object()}};
    if (!one.argument.empty()) {
      schema["properties"][std::string(one.argument)] = {{"type", "string"}};
      schema["required"] = Json::array({one.argument});
    }
    list.push_back({{"name", one.name}, {"description", "Asks the client"}, {"inputSchema", std::move(schema)}});
  }
}

std::optional<Answer> call_asking_tool(const Request& request, const std::string& name) {
  if (!has_sessions(request.revision)) return std::nullopt;
  for (const Asking& one : kAsking) {
    if (one.name == name) return one.call(request);
  }
  return std::nullopt;
}

}  // namespace warren::mcp::conformance
