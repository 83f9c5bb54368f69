#include "base/printable.h"
#include "tools/context/context_support.h"
#include "tools/context/tree_text.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {

const Tool& context_list_drives_tool();

namespace {

Json context_tree_input() {
  Json path = path_schema();
  path["description"] = "A directory on the drive; without it the whole drive. Also a whole reference \"drive:/path\".";
  Json depth = whole_number_schema("How many levels to show. Default 3.", 1);
  depth["maximum"] = 32;
  Json entries = whole_number_schema("How many entries of each directory to show. Default 20.", 1);
  entries["maximum"] = kDrawnEntriesMax;
  return object_schema({{"drive", drive_schema()},
                        {"path", std::move(path)},
                        {"max_depth", std::move(depth)},
                        {"max_items", std::move(entries)},
                        {"after", text_schema("Begin after the entry of this name: the last one that was shown of a "
                                              "large directory.")}},
                       {});
}

Json context_tree_output() {
  Json entry = object_schema({{"name", text_schema("The name.")}, {"is_directory", flag_schema("Or a file.")}},
                             {"name", "is_directory"});
  return object_schema(
      {{"ref", text_schema("What is shown; empty: the list of drives.")},
       {"tree", text_schema("The drawing.")},
       {"entries", list_schema("The entries of the directory that are shown.", std::move(entry))},
       {"next_after",
        {{"type", {"string", "null"}}, {"description", "after, for the next entries; null: there are none."}}},
       {"is_complete", flag_schema("Whether nothing was left out.")},
       {"hint", text_schema("What is left out, and what to call to see it.")}},
      {"ref", "tree", "entries", "next_after", "is_complete", "hint"});
}

Result<ToolAnswer> draw_drives(ToolContext& context) {
  ToolAnswer drives = context_list_drives_tool().call(context, Json::object());
  if (drives.error) return drives;
  drives.structured = {{"ref", ""},
                       {"tree", drives.text},
                       {"entries", Json::array()},
                       {"next_after", Json()},
                       {"is_complete", true},
                       {"hint", drives.structured["hint"]}};
  return drives;
}

Result<ToolAnswer> show_tree_of(ToolContext& context, const Json& arguments) {
  if (!arguments.contains("drive") && !arguments.contains("path")) return draw_drives(context);
  Items items = items_of(context);
  Json asked = arguments;
  if (!asked.contains("path")) asked["path"] = "/";
  Ref ref = WARREN_TRY(asked_ref(items, context, asked));
  TreeOptions options{.depth_max = given_count(arguments, "max_depth", 3),
                      .entries_max = given_count(arguments, "max_items", 20),
                      .after = given_text(arguments, "after")};
  std::optional<TreeText> tree;
  {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    std::optional<Attributes> node = WARREN_TRY(items.find(ref));
    if (node && !node->is_directory()) {
      return error_answer("not_directory", to_string(ref) + " is an item, not a directory",
                          "Call " + next_call("context_read", ref) + " to read it.");
    }
    if (node) tree = WARREN_TRY(draw_tree(items, ref, options));
  }
  if (!tree) return missing_item(items, context, ref);
  ToolAnswer answer;
  std::string hint = tree_hint(*tree, ref, options);
  bool has_next = tree->has_more_entries && !tree->entries.empty();
  Json entries = Json::array();
  for (const Items::Entry& entry : tree->entries) {
    entries.push_back({{"name", printable(entry.name)}, {"is_directory", entry.node.is_directory()}});
  }
  answer.text = tree->text + hint + "\n";
  answer.structured = {{"ref", to_string(ref)},
                       {"tree", std::move(tree->text)},
                       {"entries", std::move(entries)},
                       {"next_after", has_next ? Json(tree->entries.back().name) : Json()},
                       {"is_complete", tree->is_complete},
                       {"hint", std::move(hint)}};
  return answer;
}

ToolAnswer call_tree(ToolContext& context, const Json& arguments) {
  return answer_of(show_tree_of(context, arguments));
}

}  // namespace

const Tool& context_tree_tool() {
  static const Tool tool{.name = "context_tree",
                         .title = "Show a drive as a tree",
                         .group = "context",
                         .description =
                             "Draws the directories and items of a drive, to learn what there is; without a drive it "
                             "lists the drives. Returns the drawing, directories first, and a hint that says whether "
                             "large directories or deep levels were cut. Example: {\"drive\": \"disk\", "
                             "\"path\": \"/notes\"}.",
                         .hints = {.is_read_only = true, .is_idempotent = true},
                         .input_schema = context_tree_input,
                         .output_schema = context_tree_output,
                         .call = call_tree};
  return tool;
}

}  // namespace warren
