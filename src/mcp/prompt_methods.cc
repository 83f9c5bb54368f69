// prompts/list and prompts/get: texts that a user picks, with what the model needs to know already in them.
#include <array>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "base/path.h"
#include "mcp/conformance.h"
#include "mcp/request.h"
#include "store/record/tool_calls.h"
#include "tools/files/file_tools.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kTimelineCalls = 100;
constexpr std::size_t kShownBytes = std::size_t{64} << 10;

struct PromptArgument {
  std::string_view name;
  std::string_view description;
};

struct Prompt {
  std::string_view name;
  std::string_view title;
  std::string_view description;
  std::string_view tool;  // that it uses: without it the prompt is not offered
  PromptArgument argument;
  Result<std::string> (*text)(const Request& request, const std::string& argument);
};

// The text that a tool answers, called and recorded like any other call.
Result<std::string> tool_text(const Request& request, std::string_view name, const Json& arguments) {
  const Service& service = request.service;
  ToolContext context = service.tool_context(request.is_cancelled.get());
  ToolAnswer answer = call_tool(context, *service.find_tool(name), arguments);
  if (answer.error) return Error(Code::kInvalid, answer.error->message, answer.error->next_action_hint);
  if (answer.text.size() > kShownBytes) {
    answer.text.resize(kShownBytes);
    answer.text += "\n(cut)";
  }
  return std::move(answer.text);
}

Result<std::string> review_text(const Request& request, const std::string& since) {
  std::string from = since;
  if (from.empty()) {
    std::vector<Checkpoint> all = WARREN_TRY(list_checkpoints(request.service.agent()));
    if (all.empty())
      return Error(Code::kNotFound, "there is no checkpoint to compare with", "Take one with checkpoint.");
    from = std::to_string(all.back().id);
  }
  std::string diff = WARREN_TRY(tool_text(request, "diff", {{"from", from}, {"patch", true}}));
  return fmt::format(
      "Review the changes below, made to the agent's files since checkpoint {}. Name mistakes and risks with their "
      "files and lines, the worst first. Say what should be restored, if anything.\n\n{}",
      quote(from), diff);
}

Result<std::string> summary_text(const Request& request, const std::string& drive) {
  std::string path = drive.empty() ? "/context" : join_path("/context", drive);
  std::string tree = WARREN_TRY(tool_text(request, "tree", {{"path", path}, {"depth", 4}}));
  return fmt::format(
      "Summarise what is in {}: read the files that matter, and tell in ten sentences what is there, what it is good "
      "for, and what is missing. These are the files:\n\n{}",
      path, tree);
}

Result<std::string> plan_text(const Request& request, const std::string& goal) {
  std::vector<ToolCall> calls = WARREN_TRY(request.service.agent().tools().list({.limit = kTimelineCalls}));
  // What others have done with the agent is for its operator.
  if (request.service.view().caller().space == Space::kUser) {
    std::erase_if(calls, [&](const ToolCall& one) { return !one.details.session.starts_with("mcp-"); });
  }
  std::string timeline;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    std::string parameters = call->parameters.value_or("").substr(0, 200);
    timeline += fmt::format("{}  {} {} {}\n", time_text({.seconds = call->started_at, .nanoseconds = 0}), call->name,
                            parameters, call->error ? "failed: " + call->error->substr(0, 200) : "");
  }
  if (timeline.empty()) timeline = "(nothing was done yet)\n";
  return fmt::format(
      "These are the last calls of this agent, oldest first:\n\n{}\nPlan the next steps{}{}: what is done, what is "
      "left, "
      "what failed and why. Write the plan to /mem/working/plan.md.",
      timeline, goal.empty() ? "" : " towards this goal: ", goal);
}

constexpr std::array<Prompt, 3> kPrompts{{
    {"review_changes",
     "Review my changes",
     "Review what changed since a checkpoint",
     "diff",
     {"since", "a checkpoint; default: the newest"},
     review_text},
    {"summarise_drive",
     "Summarise this drive",
     "Summarise the documents of a drive below /context",
     "tree",
     {"drive", "its name; default: all drives"},
     summary_text},
    {"plan_from_timeline",
     "Plan from the timeline",
     "Plan the next steps from what was done so far",
     "read_file",
     {"goal", "what to reach"},
     plan_text},
}};

// The timeline reports everything that was done, also above a root and by other agents.
bool is_offered(const Request& request, const Prompt& prompt) {
  bool is_limited = request.service.root() != "/" || request.service.is_for_peer();
  if (prompt.text == plan_text && is_limited) return false;
  return request.service.find_tool(prompt.tool) != nullptr;
}

}  // namespace

Answer list_prompts(Request& request) {
  Json list = Json::array();
  for (const Prompt& prompt : kPrompts) {
    if (!is_offered(request, prompt)) continue;
    Json one{{"name", prompt.name}};
    if (has_structure(request.revision)) one["title"] = prompt.title;
    one["description"] = prompt.description;
    one["arguments"] = Json::array(
        {{{"name", prompt.argument.name}, {"description", prompt.argument.description}, {"required", false}}});
    list.push_back(std::move(one));
  }
  if (request.service.options().is_conformance) {
    for (Json& one : conformance::prompts()) list.push_back(std::move(one));
  }
  return Json{{"prompts", std::move(list)}};
}

Answer get_prompt(Request& request) {
  std::optional<std::string> name = find_text(request.params, "name");
  if (!name) return invalid_params("'name' must be the name of a prompt");
  if (request.service.options().is_conformance) {
    if (std::optional<Answer> fixture = conformance::get_prompt(request, *name)) return *std::move(fixture);
  }
  for (const Prompt& prompt : kPrompts) {
    if (prompt.name != *name || !is_offered(request, prompt)) continue;
    Json arguments = request.params.value("arguments", Json::object());
    if (!arguments.is_object()) return invalid_params("'arguments' must be an object");
    std::string key(prompt.argument.name);
    for (const auto& [given, value] : arguments.items()) {
      if (given != key || !value.is_string()) {
        return invalid_params(fmt::format("{} takes one argument, {}, a string", quote(*name), quote(key)));
      }
    }
    Result<std::string> text = prompt.text(request, find_text(arguments, key.c_str()).value_or(""));
    if (!text.ok()) {
      RpcError error = rpc_error(text.error());
      error.code = kInvalidParams;
      return error;
    }
    Json content{{"type", "text"}, {"text", *std::move(text)}};
    return Json{{"description", prompt.description},
                {"messages", Json::array({{{"role", "user"}, {"content", std::move(content)}}})}};
  }
  return invalid_params(fmt::format("there is no prompt {}", quote(*name)));
}

}  // namespace warren::mcp
