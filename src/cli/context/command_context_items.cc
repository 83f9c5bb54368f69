#include <fmt/format.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/context/context_commands.h"
#include "cli/context/tool_call.h"

namespace warren::cli {
namespace {

// A tool of ours that exists.
const Tool& known_tool(std::string_view name) {
  const Tool* tool = find_tool(name);
  WARREN_CHECK(tool != nullptr);
  return *tool;
}

Result<Exit> call_and_print(Context& context, const Arguments& args, std::string_view tool, const Json& arguments) {
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  ToolAnswer answer = call_here(context, view, known_tool(tool), arguments);
  return print_answer(context, args, answer);
}

Json ref_arguments(const Arguments& args) { return {{"path", args.get("REF")}}; }

// The tree with what to do about its limits, in terms of this command.
Result<Exit> call_and_print_tree(Context& context, const Arguments& args, const Json& arguments) {
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  ToolAnswer answer = call_here(context, view, known_tool("context_tree"), arguments);
  bool is_cut = !answer.error && !answer.structured.at("is_complete").get<bool>();
  if (!is_cut || args.has("json")) return print_answer(context, args, answer);
  context.out.text(answer.structured.at("tree").get_ref<const std::string&>());
  const Json& next = answer.structured.at("next_after");
  if (next.is_string()) {
    context.err.print("warren: there are more entries: --after {} shows the next ones\n",
                      quote(next.get_ref<const std::string&>()));
  } else {
    context.err.print("warren: not everything is shown: name a directory to see all of it\n");
  }
  return Exit::kOk;
}

Result<Exit> run_context_list(Context& context, const Arguments& args) {
  std::optional<std::string> ref = args.find("REF");
  if (!ref) return call_and_print(context, args, "context_list_drives", Json::object());
  Json arguments{{"path", *ref}, {"max_depth", 1}, {"max_items", 1000}};
  if (auto after = args.find("after")) arguments["after"] = *after;
  return call_and_print_tree(context, args, arguments);
}

Result<Exit> run_context_tree(Context& context, const Arguments& args) {
  Json arguments = Json::object();
  if (std::optional<std::string> ref = args.find("REF")) arguments["path"] = *ref;
  if (args.has("depth")) arguments["max_depth"] = args.integer("depth");
  if (args.has("items")) arguments["max_items"] = args.integer("items");
  if (auto after = args.find("after")) arguments["after"] = *after;
  return call_and_print_tree(context, args, arguments);
}

// All of it, page by page, unless a part was asked for.
Result<Exit> run_context_read(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  Json arguments = ref_arguments(args);
  if (args.has("offset")) arguments["offset"] = args.integer("offset");
  if (args.has("limit")) arguments["limit"] = args.integer("limit");
  const Tool& tool = known_tool("context_read");
  LastDocument last_document;
  for (;;) {
    ToolAnswer answer = call_here(context, view, tool, arguments, {.last_document = &last_document});
    if (answer.error || args.has("json")) return print_answer(context, args, answer);
    context.out.text(answer.structured.at("content").get_ref<const std::string&>());
    WARREN_TRY(context.out.status());
    if (args.has("limit") || answer.structured.at("next_offset").is_null()) return Exit::kOk;
    arguments["offset"] = answer.structured.at("next_offset");
    arguments["column"] = answer.structured.at("next_column");
  }
}

Result<Exit> run_context_write(Context& context, const Arguments& args) {
  std::optional<std::string> given = args.find("TEXT");
  std::string content = given && *given != "-" ? *given : WARREN_TRY(read_input(context, limits::kValueBytes));
  Json arguments = ref_arguments(args);
  bool is_plain = warren::is_utf8(content);
  arguments["content"] = is_plain ? content : encode_base64(as_bytes(content));
  if (!is_plain) arguments["encoding"] = "base64";
  if (args.has("overwrite")) arguments["on_conflict"] = "overwrite";
  if (auto revision = args.find("revision")) arguments["expected_revision"] = *revision;
  if (auto title = args.find("title")) arguments["title"] = *title;
  return call_and_print(context, args, "context_write", arguments);
}

Result<Exit> run_context_edit(Context& context, const Arguments& args) {
  std::string text = args.get("PATCHES");
  if (text == "-") text = WARREN_TRY(read_input(context, limits::kValueBytes));
  Json patches = WARREN_TRY(parse_json(text).within("the patches"));
  Json arguments = ref_arguments(args);
  arguments["patches"] = patches.is_object() ? Json::array({patches}) : patches;
  if (auto revision = args.find("revision")) arguments["expected_revision"] = *revision;
  return call_and_print(context, args, "context_edit", arguments);
}

Result<Exit> run_context_exists(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  ToolAnswer answer = call_here(context, view, known_tool("context_exists"), ref_arguments(args));
  if (answer.error || args.has("json")) return print_answer(context, args, answer);
  return answer.structured.at("exists").get<bool>() ? Exit::kOk : Exit::kFailed;
}

Result<Exit> run_context_delete(Context& context, const Arguments& args) {
  Json arguments = ref_arguments(args);
  arguments["recursive"] = args.has("recursive");
  return call_and_print(context, args, "context_delete", arguments);
}

Result<Exit> run_transfer(Context& context, const Arguments& args, std::string_view tool) {
  Json arguments = ref_arguments(args);
  arguments["to_path"] = args.get("TO");
  if (args.has("overwrite")) arguments["on_conflict"] = "overwrite";
  return call_and_print(context, args, tool, arguments);
}

Result<Exit> run_context_copy(Context& context, const Arguments& args) {
  return run_transfer(context, args, "context_copy");
}
Result<Exit> run_context_move(Context& context, const Arguments& args) {
  return run_transfer(context, args, "context_move");
}
Result<Exit> run_context_info(Context& context, const Arguments& args) {
  return call_and_print(context, args, "context_info", ref_arguments(args));
}
Result<Exit> run_context_create_dir(Context& context, const Arguments& args) {
  return call_and_print(context, args, "context_create_dir", ref_arguments(args));
}
Result<Exit> run_context_dir_size(Context& context, const Arguments& args) {
  return call_and_print(context, args, "context_dir_size", ref_arguments(args));
}
Result<Exit> run_context_count_lines(Context& context, const Arguments& args) {
  return call_and_print(context, args, "context_count_lines", ref_arguments(args));
}

Command item_command(std::string_view name, std::string_view summary, std::vector<Positional> positionals,
                     std::vector<Option> options, Handler handler) {
  for (Option& one : tool_call_options()) options.push_back(std::move(one));
  return {.name = name,
          .summary = summary,
          .details = "",
          .positionals = std::move(positionals),
          .options = std::move(options),
          .subcommands = {},
          .handler = handler};
}

}  // namespace

std::vector<Command> make_context_items() {
  Positional ref{.name = "REF", .help = "the item: DRIVE:/PATH, an id or a web address"};
  Positional maybe{.name = "REF", .help = "a drive or directory: DRIVE:/PATH", .times = Times::kOptional};
  Positional to{.name = "TO", .help = "the target, DRIVE:/PATH"};
  Positional content{
      .name = "TEXT", .help = "the content; `-` or nothing: from standard input", .times = Times::kOptional};
  Positional patches{.name = "PATCHES",
                     .help = "JSON: [{\"start_line\": 1, \"end_line\": 1, \"content\": \"…\"}]; `-`: standard input"};
  Option overwrite{.name = "overwrite", .help = "replace an item that exists"};
  Option revision{.name = "revision", .value = "REVISION", .help = "only if the item still has this revision"};
  auto count = [](std::string_view name, std::string_view help) {
    return Option{.name = name, .value = "N", .help = help, .kind = ValueKind::kCount};
  };
  Option after{.name = "after", .value = "NAME", .help = "begin after this entry: the next page of a large directory"};
  return {
      item_command("list", "List the drives, or the entries of a directory, up to 1,000 of them", {maybe}, {after},
                   run_context_list),
      item_command("tree", "Show a drive or directory as a tree", {maybe},
                   {count("depth", "how many levels [default: 3]"),
                    count("items", "how many entries of each directory [default: 20]"), after},
                   run_context_tree),
      item_command("read", "Print the text of an item", {ref},
                   {count("offset", "the first line, from 1"), count("limit", "how many lines")}, run_context_read),
      item_command("write", "Write an item", {ref, content},
                   {overwrite, revision, {.name = "title", .value = "TEXT", .help = "a title for it"}},
                   run_context_write),
      item_command("edit", "Replace, insert and delete lines of an item", {ref, patches}, {revision}, run_context_edit),
      item_command("info", "Show what is known about an item", {ref}, {}, run_context_info),
      item_command("exists", "Check whether an item or directory exists; exit with 1 if not", {ref}, {},
                   run_context_exists),
      item_command("delete", "Delete an item or directory", {ref},
                   {{.name = "recursive", .letter = 'r', .help = "delete a directory and everything in it"}},
                   run_context_delete),
      item_command("copy", "Copy an item or directory, also to another drive", {ref, to}, {overwrite},
                   run_context_copy),
      item_command("move", "Move an item or directory, also to another drive", {ref, to}, {overwrite},
                   run_context_move),
      item_command("create-dir", "Make a directory", {ref}, {}, run_context_create_dir),
      item_command("dir-size", "Count items and add up their sizes", {ref}, {}, run_context_dir_size),
      item_command("count-lines", "Count the lines of an item", {ref}, {}, run_context_count_lines)};
}

}  // namespace warren::cli
