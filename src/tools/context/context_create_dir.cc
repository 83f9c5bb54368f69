#include "tools/context/context_support.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json create_dir_input() {
  Json properties = item_properties();
  properties["drive"]["description"] = "The drive. Default \"agent\".";
  return object_schema(std::move(properties), {"path"});
}

Json create_dir_output() {
  return object_schema({{"drive", text_schema("The drive.")},
                        {"path", text_schema("The path on it.")},
                        {"ref", text_schema("Both as drive:/path.")},
                        {"created", flag_schema("False if it existed already.")}},
                       {"drive", "path", "ref", "created"});
}

Result<ToolAnswer> create_dir(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Ref ref = WARREN_TRY(asked_ref(items, context, arguments, {.fallback = "agent"}));
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::optional<Attributes> old = WARREN_TRY(items.find(ref));
  if (old && !old->is_directory()) {
    return error_answer("already_exists", to_string(ref) + " is an item", "Choose another path for the directory.");
  }
  if (!old) WARREN_TRY(items.make_dir(ref));
  WARREN_TRY(unit->commit());
  ToolAnswer answer;
  answer.structured = place_of(ref);
  answer.structured["created"] = !old;
  return answer;
}

ToolAnswer call_create_dir(ToolContext& context, const Json& arguments) {
  return answer_of(create_dir(context, arguments));
}

}  // namespace

const Tool& context_create_dir_tool() {
  static const Tool tool{
      .name = "context_create_dir",
      .title = "Make a directory",
      .group = "context",
      .description =
          "Makes a directory on a drive, with those above it. Seldom needed: context_write makes them "
          "itself. Returns its place; it is no error if it exists. Example: {\"path\": \"/plans\"}.",
      .hints = {.is_idempotent = true},
      .input_schema = create_dir_input,
      .output_schema = create_dir_output,
      .call = call_create_dir};
  return tool;
}

}  // namespace warren
