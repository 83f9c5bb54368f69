#include <fmt/format.h>

#include "tools/context/context_support.h"
#include "tools/files/file_tools.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json delete_input() {
  Json properties = item_properties();
  properties["recursive"] = flag_schema("Needed to delete a directory and everything in it. Default false.");
  return object_schema(std::move(properties), {"path"});
}

Json delete_output() {
  return object_schema(
      {{"ref", text_schema("What was deleted.")}, {"items", whole_number_schema("How many items that were.", 0)}},
      {"ref", "items"});
}

Result<bool> is_directory_item(ToolContext& context, Items& items, const Ref& ref) {
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  std::optional<Attributes> node = WARREN_TRY(items.find(ref));
  return node && node->is_directory();
}

Result<RemovedTree> items_below(ToolContext& context, Items& items, const Ref& ref) {
  RemovedTree tree;
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  WARREN_TRY(items.walk_items(ref, [&](const Ref& at, const Attributes& node) -> Result<bool> {
    WARREN_TRY(check_cancelled(context));
    if (at.path != ref.path) tree.add(at.path, node);
    return true;
  }));
  return tree;
}

Result<ToolAnswer> delete_item(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Ref ref = WARREN_TRY(asked_ref(items, context, arguments));
  if (given_flag(arguments, "recursive") && WARREN_TRY(is_directory_item(context, items, ref))) {
    WARREN_TRY(check_removal(context, "Delete", to_string(ref), [&] { return items_below(context, items, ref); }));
  }
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::optional<Attributes> node = WARREN_TRY(items.find(ref));
  if (!node) return missing_item(items, context, ref);
  if (node->is_directory() && !given_flag(arguments, "recursive")) {
    Json again{{"drive", ref.drive}, {"path", ref.path}, {"recursive", true}};
    return error_answer("is_directory", to_string(ref) + " is a directory",
                        fmt::format("Call {} to delete it with everything in it, or {} to look first.",
                                    next_call("context_delete", again), next_call("context_tree", ref)));
  }
  std::uint64_t count = 0;
  WARREN_TRY(items.walk_items(ref, [&](const Ref&, const Attributes&) -> Result<bool> {
    ++count;
    return true;
  }));
  WARREN_TRY(items.remove(ref));
  WARREN_TRY(unit->commit());
  ToolAnswer answer;
  answer.structured = {{"ref", to_string(ref)}, {"items", count}};
  return answer;
}

ToolAnswer call_delete(ToolContext& context, const Json& arguments) {
  return answer_of(delete_item(context, arguments));
}

}  // namespace

const Tool& context_delete_tool() {
  static const Tool tool{
      .name = "context_delete",
      .title = "Delete an item or directory",
      .group = "context",
      .description =
          "Deletes an item, or, with \"recursive\": true, a directory and everything in it. It cannot be "
          "undone by a tool, so be sure. Returns what was deleted. Example: {\"drive\": \"agent\", "
          "\"path\": \"/notes/old.md\"}.",
      .hints = {.is_destructive = true},
      .input_schema = delete_input,
      .output_schema = delete_output,
      .call = call_delete};
  return tool;
}

}  // namespace warren
