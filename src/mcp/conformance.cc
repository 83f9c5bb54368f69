#include "mcp/conformance.h"

#include <array>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/path.h"

namespace warren::mcp::conformance {
namespace {

constexpr std::chrono::milliseconds kPause{50};  // as the suites ask for
constexpr std::string_view kPng =                // one red pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
constexpr std::string_view kWav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==";

Json text_block(std::string_view text) { return {{"type", "text"}, {"text", text}}; }
Json image_block() { return {{"type", "image"}, {"data", kPng}, {"mimeType", "image/png"}}; }
Json audio_block() { return {{"type", "audio"}, {"data", kWav}, {"mimeType", "audio/wav"}}; }

Json resource_block(std::string_view uri, std::string_view type, std::string_view text) {
  return {{"type", "resource"}, {"resource", {{"uri", uri}, {"mimeType", type}, {"text", text}}}};
}

Json content_of(Json blocks) { return {{"content", std::move(blocks)}, {"isError", false}}; }

Json log_thrice(const Request& request) {
  for (std::string_view step : {"Tool execution started", "Tool processing data", "Tool execution completed"}) {
    log(request, "info", step);
    std::this_thread::sleep_for(kPause);
  }
  return content_of(Json::array({text_block("Logged three messages.")}));
}

Json report_progress(const Request& request) {
  const Json& meta = meta_of(request.params);
  for (int done : {0, 50, 100}) {
    if (auto token = meta.find("progressToken"); token != meta.end()) {
      request.notify("notifications/progress", {{"progressToken", *token}, {"progress", done}, {"total", 100}});
    }
    std::this_thread::sleep_for(kPause);
  }
  return content_of(Json::array({text_block("Reported progress.")}));
}

struct Fixture {
  std::string_view name;
  std::string_view description;
  Json (*call)(const Request&);
};
constexpr std::array<Fixture, 8> kTools{{
    {"test_simple_text", "Returns a text",
     [](const Request&) {
       return content_of(Json::array({text_block("This is a simple text response for testing.")}));
     }},
    {"test_image_content", "Returns an image", [](const Request&) { return content_of(Json::array({image_block()})); }},
    {"test_audio_content", "Returns a sound", [](const Request&) { return content_of(Json::array({audio_block()})); }},
    {"test_embedded_resource", "Returns a resource",
     [](const Request&) {
       return content_of(Json::array(
           {resource_block("test://embedded-resource", "text/plain", "This is an embedded resource content.")}));
     }},
    {"test_multiple_content_types", "Returns a text, an image and a resource",
     [](const Request&) {
       return content_of(Json::array(
           {text_block("Multiple content types test:"), image_block(),
            resource_block("test://mixed-content-resource", "application/json", R"({"test":"data","value":123})")}));
     }},
    {"test_tool_with_logging", "Sends three log messages", log_thrice},
    {"test_tool_with_progress", "Reports progress three times", report_progress},
    {"test_error_handling", "Fails",
     [](const Request&) {
       return Json{{"content", Json::array({text_block("This tool intentionally returns an error for testing")})},
                   {"isError", true}};
     }},
}};

Json message_with(Json content) { return {{"role", "user"}, {"content", std::move(content)}}; }

struct PromptFixture {
  std::string_view name;
  std::vector<std::string_view> arguments;
  Json (*messages)(const Json& arguments);
};

const std::vector<PromptFixture>& prompt_fixtures() {
  static const std::vector<PromptFixture> kAllPrompts{
      {"test_simple_prompt",
       {},
       [](const Json&) { return Json::array({message_with(text_block("This is a simple prompt for testing."))}); }},
      {"test_prompt_with_arguments",
       {"arg1", "arg2"},
       [](const Json& given) {
         return Json::array({message_with(text_block(fmt::format("Prompt with arguments: arg1={}, arg2={}",
                                                                 quote(find_text(given, "arg1").value_or("")),
                                                                 quote(find_text(given, "arg2").value_or("")))))});
       }},
      {"test_prompt_with_embedded_resource",
       {"resourceUri"},
       [](const Json& given) {
         return Json::array({message_with(resource_block(find_text(given, "resourceUri").value_or(""), "text/plain",
                                                         "Embedded resource content for testing.")),
                             message_with(text_block("Please process the embedded resource above."))});
       }},
      {"test_prompt_with_image", {}, [](const Json&) {
         return Json::array({message_with(image_block()), message_with(text_block("Please analyze the image above."))});
       }}};
  return kAllPrompts;
}

Answer contents(std::string_view uri, std::string_view type, const char* member, std::string_view value) {
  Json one{{"uri", uri}, {"mimeType", type}};
  one[member] = value;
  return Json{{"contents", Json::array({std::move(one)})}};
}

constexpr std::string_view kTemplateStart = "test://template/";
constexpr std::string_view kTemplateEnd = "/data";

}  // namespace

Json tools() {
  Json list = Json::array();
  for (const Fixture& one : kTools) {
    list.push_back({{"name", one.name},
                    {"description", one.description},
                    {"inputSchema", {{"type", "object"}, {"properties", Json::object()}}}});
  }
  add_asking_tools(list);
  add_round_tools(list);
  return list;
}

std::optional<Answer> call_tool(const Request& request, const std::string& name) {
  for (const Fixture& one : kTools) {
    if (one.name == name) return one.call(request);
  }
  if (std::optional<Answer> round = call_round_tool(request, name)) return round;
  return call_asking_tool(request, name);
}

Json resources() {
  Json list = Json::array();
  for (std::string_view name : {"static-text", "static-binary", "watched-resource"}) {
    list.push_back({{"uri", fmt::format("test://{}", name)}, {"name", name}, {"description", "A fixture"}});
  }
  return list;
}

Json templates() {
  return Json::array({{{"uriTemplate", "test://template/{id}/data"},
                       {"name", "test-template"},
                       {"mimeType", "application/json"},
                       {"description", "A fixture"}}});
}

bool is_resource(const std::string& uri) { return uri.starts_with("test://"); }

std::optional<Answer> read_resource(const std::string& uri) {
  if (uri == "test://static-text") {
    return contents(uri, "text/plain", "text", "This is the content of the static text resource.");
  }
  if (uri == "test://static-binary") return contents(uri, "image/png", "blob", kPng);
  if (uri == "test://watched-resource") return contents(uri, "text/plain", "text", "Watched resource content");
  if (!uri.starts_with(kTemplateStart) || !uri.ends_with(kTemplateEnd)) return std::nullopt;
  std::string id = uri.substr(kTemplateStart.size(), uri.size() - kTemplateStart.size() - kTemplateEnd.size());
  Json data{{"id", id}, {"templateTest", true}, {"data", fmt::format("Data for ID: {}", id)}};
  return contents(uri, "application/json", "text", dump_json(data));
}

Json prompts() {
  Json list = Json::array();
  for (const PromptFixture& one : prompt_fixtures()) {
    Json arguments = Json::array();
    for (std::string_view name : one.arguments) {
      arguments.push_back({{"name", name}, {"description", "an argument"}, {"required", true}});
    }
    list.push_back({{"name", one.name}, {"description", "A fixture"}, {"arguments", std::move(arguments)}});
  }
  return list;
}

std::optional<Answer> get_prompt(const Request& request, const std::string& name) {
  for (const PromptFixture& one : prompt_fixtures()) {
    if (one.name != name) continue;
    Json given = request.params.value("arguments", Json::object());
    for (std::string_view needed : one.arguments) {
      if (!given.is_object() || !given.contains(std::string(needed))) {
        return invalid_params(fmt::format("the argument {} is missing", quote(needed)));
      }
    }
    return Json{{"description", "A fixture"}, {"messages", one.messages(given)}};
  }
  return get_round_prompt(request, name);
}

}  // namespace warren::mcp::conformance
