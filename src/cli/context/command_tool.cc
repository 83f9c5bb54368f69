#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context/tool_call.h"
#include "cli/serve/served_view.h"
#include "text/nearest.h"

namespace warren::cli {
namespace {

Json tool_json(const Tool& tool) {
  return {{"name", tool.name},
          {"title", tool.title},
          {"group", tool.group},
          {"description", tool.description},
          {"is_read_only", tool.hints.is_read_only},
          {"is_destructive", tool.hints.is_destructive},
          {"is_idempotent", tool.hints.is_idempotent},
          {"input_schema", tool.input_schema()},
          {"output_schema", tool.output_schema()}};
}

// An argument on its own line: its name, whether it must be given, and what it means.
void show_parameters(Context& context, const Json& schema) {
  Json required = schema.value("required", Json::array());
  for (const auto& [name, one] : schema.at("properties").items()) {
    bool is_needed = std::find(required.begin(), required.end(), Json(name)) != required.end();
    context.out.print("    {:<18} {}{}\n", name, is_needed ? "(needed) " : "", one.value("description", ""));
  }
}

Result<Exit> list_tools(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  if (args.has("json")) {
    Json list = Json::array();
    for (const Tool* tool : all_tools()) {
      if (tool->alias_of.empty()) list.push_back(tool_json(*tool));
    }
    context.out.json(list);
    return Exit::kOk;
  }
  for (const Tool* tool : all_tools()) {
    if (!tool->alias_of.empty()) continue;
    context.out.print("{}\n    {}\n", context.out.paint(Ink::kBold, tool->name), tool->description);
    show_parameters(context, tool->input_schema());
  }
  return Exit::kOk;
}

Result<const Tool*> get_tool(const std::string& name) {
  if (const Tool* tool = find_tool(name)) return tool;
  std::vector<std::string_view> names;
  for (const Tool* tool : all_tools()) names.push_back(tool->name);
  std::string near = nearest(name, names);
  return Error(Code::kNotFound, fmt::format("no tool {}", quote(name)),
               near.empty() ? "`warren tool ID` lists the tools" : fmt::format("did you mean {}?", quote(near)));
}

Result<Json> given_arguments(Context& context, const Arguments& args) {
  std::string text = args.find("ARGUMENTS").value_or("{}");
  if (text == "-") text = WARREN_TRY(read_input(context, limits::kValueBytes));
  return parse_json(text).within("the arguments");
}

Result<Exit> run_tool(Context& context, const Arguments& args) {
  std::optional<std::string> name = args.find("NAME");
  if (!name) return list_tools(context, args);
  const Tool* tool = WARREN_TRY(get_tool(*name));
  Json arguments = WARREN_TRY(given_arguments(context, args));
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  ToolReach reach;  // the sandbox and the base have commands of their own: run, apply
  reach.relay = WARREN_TRY(find_relay_place(context, args));
  ToolAnswer answer = call_here(context, view, *tool, arguments, {.reach = &reach});
  return print_answer(context, args, answer);
}

}  // namespace

Command make_tool() {
  std::vector<Option> options = tool_call_options();
  for (Option& one : relay_place_options()) options.push_back(std::move(one));
  return {
      .name = "tool",
      .summary = "List the tools that models have, or call one",
      .details =
          "Without NAME it lists the tools with their arguments; with --json also their schemas. A call is recorded in "
          "the tool-call trail. An error is printed as JSON with is_error, error_type, message and "
          "next_action_hint, and the command exits with 1.",
      .positionals = {id_argument(),
                      {.name = "NAME", .help = "the tool's name", .times = Times::kOptional},
                      {.name = "ARGUMENTS",
                       .help = "a JSON object; `-`: from standard input; nothing: {}",
                       .times = Times::kOptional}},
      .options = std::move(options),
      .subcommands = {},
      .handler = run_tool};
}

}  // namespace warren::cli
