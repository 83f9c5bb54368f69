#include "tools/context/context_support.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json exists_input() { return object_schema(item_properties(), {"path"}); }

Json exists_output() {
  return object_schema({{"exists", flag_schema("Whether there is an item or a directory.")},
                        {"kind", choice_schema("What there is.", {"item", "directory", "nothing"})},
                        {"ref", text_schema("What was looked for; empty for an id that no item has.")}},
                       {"exists", "kind", "ref"});
}

Result<ToolAnswer> look_for(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  ToolAnswer answer;
  answer.structured = {{"exists", false}, {"kind", "nothing"}, {"ref", ""}};
  Result<Ref> ref = asked_ref(items, context, arguments);
  if (!ref.ok() && ref.error().code() == Code::kNotFound) return answer;
  Ref found = WARREN_TRY(std::move(ref));
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  std::optional<Attributes> node = WARREN_TRY(items.find(found));
  bool is_item = node && node->is_file();
  bool is_directory = node && node->is_directory();
  answer.structured = {{"exists", is_item || is_directory},
                       {"kind", is_item        ? "item"
                                : is_directory ? "directory"
                                               : "nothing"},
                       {"ref", to_string(found)}};
  return answer;
}

ToolAnswer call_exists(ToolContext& context, const Json& arguments) { return answer_of(look_for(context, arguments)); }

}  // namespace

const Tool& context_exists_tool() {
  static const Tool tool{
      .name = "context_exists",
      .title = "Check whether an item exists",
      .group = "context",
      .description =
          "Checks whether there is an item or a directory at a path, or an item of an id, before it is "
          "used. Returns true or false, and which. Example: {\"drive\": \"agent\", \"path\": "
          "\"/notes/todo.md\"}.",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = exists_input,
      .output_schema = exists_output,
      .call = call_exists};
  return tool;
}

}  // namespace warren
