// context_copy and context_move, which take the same arguments.
#include <fmt/format.h>

#include "base/path.h"
#include "tools/context/context_support.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

enum class Transfer { kCopy, kMove };

Json transfer_input() {
  Json properties = item_properties();
  properties["to_drive"] = text_schema("The drive of the target. Default: the drive of the source.");
  properties["to_path"] = path_schema();
  properties["to_path"]["description"] =
      "The path of the target, with its name. Also a whole reference \"drive:/path\".";
  properties["on_conflict"] =
      choice_schema("What to do if an item exists there. Default \"error\".", {"error", "overwrite"});
  return object_schema(std::move(properties), {"path", "to_path"});
}

Json transfer_output() {
  Json id = text_schema("Of the item at its new place; null for a directory.");
  id["type"] = {"string", "null"};
  return object_schema({{"id", std::move(id)},
                        {"from", text_schema("The source.")},
                        {"drive", text_schema("The drive of the target.")},
                        {"path", text_schema("The path on it.")},
                        {"ref", text_schema("Both as drive:/path.")},
                        {"items", whole_number_schema("How many items there are now at the target.", 0)}},
                       {"id", "from", "drive", "path", "ref", "items"});
}

Result<std::uint64_t> count_items(Items& items, const Ref& ref) {
  std::uint64_t count = 0;
  WARREN_TRY(items.walk_items(ref, [&](const Ref&, const Attributes&) -> Result<bool> {
    ++count;
    return true;
  }));
  return count;
}

struct Places {
  Ref from;
  Ref to;
  Items::Replace replace;
};

// Something is there already. Only an item is replaced, and only by an item.
Result<ToolAnswer> taken_answer(ToolContext& context, const Json& arguments, Transfer how, const Places& places) {
  Items items = items_of(context);
  std::optional<Attributes> source = WARREN_TRY(items.find(places.from));
  std::optional<Attributes> target = WARREN_TRY(items.find(places.to));
  bool are_items = source && source->is_file() && target && target->is_file();
  std::string hint =
      fmt::format("Choose another target; {} shows what there is.", next_call("context_tree", places.to));
  if (are_items) {
    Json again = arguments;
    again["on_conflict"] = "overwrite";
    std::string_view tool = how == Transfer::kCopy ? "context_copy" : "context_move";
    hint = fmt::format("Choose another target, or replace the item: {}", next_call(tool, again));
  }
  std::string_view what = target && target->is_directory() ? "a directory" : "an item";
  return error_answer("already_exists", fmt::format("{} is {} already", quote(to_string(places.to)), what), hint);
}

// In one unit, unless the two are in different mounts.
Status carry_out(ToolContext& context, Items& items, const Places& places, Transfer how) {
  const auto& [from, to, replace] = places;
  if (!WARREN_TRY(items.are_apart(from, to))) {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
    Status done = how == Transfer::kCopy ? items.copy(from, to, replace) : items.move(from, to, replace);
    if (done.ok()) return unit->commit();
    if (done.error().code() != Code::kCrossDevice) return done;
  }
  return how == Transfer::kCopy ? items.copy_apart(from, to, replace) : items.move_apart(from, to, replace);
}

Result<ToolAnswer> transfer(ToolContext& context, const Json& arguments, Transfer how) {
  Items items = items_of(context);
  Ref from = WARREN_TRY(asked_ref(items, context, arguments));
  Ref to = WARREN_TRY(
      asked_ref(items, context, arguments, {.drive = "to_drive", .path = "to_path", .fallback = from.drive}));
  std::optional<Attributes> node = WARREN_TRY(items.find(from));
  if (!node) return missing_item(items, context, from);
  bool may_replace = given_text(arguments, "on_conflict", "error") == "overwrite";
  Places places{.from = from, .to = to, .replace = may_replace ? Items::Replace::kYes : Items::Replace::kNo};
  Status done = carry_out(context, items, places, how);
  if (!done.ok() && done.error().code() == Code::kExists) return taken_answer(context, arguments, how, places);
  WARREN_TRY(std::move(done));
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  std::optional<Attributes> there = WARREN_TRY(items.find(to));
  if (!there) return Error(Code::kStale, fmt::format("{} is gone again", to_string(to)));
  std::optional<ItemRow> row = WARREN_TRY(items.find_row(to, *there));
  std::uint64_t count = WARREN_TRY(count_items(items, to));
  ToolAnswer answer;
  answer.structured = {{"id", row ? Json(row->id) : Json()}, {"from", to_string(from)}};
  answer.structured.update(place_of(to));
  answer.structured["items"] = count;
  return answer;
}

ToolAnswer call_copy(ToolContext& context, const Json& arguments) {
  return answer_of(transfer(context, arguments, Transfer::kCopy));
}

ToolAnswer call_move(ToolContext& context, const Json& arguments) {
  return answer_of(transfer(context, arguments, Transfer::kMove));
}

}  // namespace

const Tool& context_copy_tool() {
  static const Tool tool{
      .name = "context_copy",
      .title = "Copy an item or directory",
      .group = "context",
      .description =
          "Copies an item, or a directory with everything in it, to another path or drive; context_move "
          "keeps no original. Returns the new place, its id and the number of items. Example: {\"path\": "
          "\"disk:/notes\", \"to_path\": \"agent:/my-notes\"}.",
      .hints = {.is_destructive = true},
      .input_schema = transfer_input,
      .output_schema = transfer_output,
      .call = call_copy};
  return tool;
}

const Tool& context_move_tool() {
  static const Tool tool{
      .name = "context_move",
      .title = "Move an item or directory",
      .group = "context",
      .description =
          "Renames an item or directory, or moves it to another drive; context_copy keeps the original. "
          "Returns the new place; ids stay. Example: {\"drive\": \"agent\", \"path\": \"/a.md\", "
          "\"to_path\": \"/old/a.md\"}.",
      .hints = {.is_destructive = true},
      .input_schema = transfer_input,
      .output_schema = transfer_output,
      .call = call_move};
  return tool;
}

}  // namespace warren
