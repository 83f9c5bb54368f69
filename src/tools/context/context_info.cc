#include "text/mime.h"
#include "tools/context/context_support.h"
#include "tools/files/file_tools.h"
#include "tools/files/line_slice.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json info_input() { return object_schema(item_properties(), {"path"}); }

Json nullable(Json schema) {
  schema["type"] = Json::array({schema["type"], "null"});
  return schema;
}

Json info_output() {
  return object_schema(
      {{"id", nullable(text_schema("The item's id; null for a directory."))},
       {"drive", text_schema("The drive.")},
       {"path", text_schema("The path on it.")},
       {"ref", text_schema("Both as drive:/path.")},
       {"kind", choice_schema("What it is.", {"item", "directory"})},
       {"size_bytes", whole_number_schema("Of its content; 0 for a directory.", 0)},
       {"lines", nullable(whole_number_schema("Of its text; null if it has none or is very large.", 0))},
       {"mime", nullable(text_schema("What kind of content it is."))},
       {"is_text", flag_schema("Whether context_read can read it.")},
       {"title", nullable(text_schema("Its title, if it has one."))},
       {"source", nullable(text_schema("Where it was fetched from."))},
       {"fetched_at", nullable(text_schema("When, in UTC."))},
       {"modified_at", text_schema("When it was last changed, in UTC.")},
       {"revision", nullable(text_schema("Names the content, for context_edit."))}},
      {"id", "drive", "path", "ref", "kind", "size_bytes", "lines", "mime", "is_text", "title", "source", "fetched_at",
       "modified_at", "revision"});
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json directory_info(const Ref& ref, const Attributes& node) {
  Json info{{"id", nullptr}};
  info.update(place_of(ref));
  info.update({{"kind", "directory"},
               {"size_bytes", 0},
               {"lines", nullptr},
               {"mime", "inode/directory"},
               {"is_text", false},
               {"title", nullptr},
               {"source", nullptr},
               {"fetched_at", nullptr},
               {"modified_at", time_text(node.mtime)},
               {"revision", nullptr}});
  return info;
}

Result<Json> item_info(ToolContext& context, Items& items, const Ref& ref, const Attributes& node) {
  // Nothing of it is shown: only its lines are counted.
  LineSlice slice = WARREN_TRY(read_line_slice(context.view, node, {.limit = 0}));
  Json id = WARREN_TRY(id_of_item(items, context, ref, node));
  ItemRow row;
  {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    std::optional<ItemRow> found = WARREN_TRY(items.find_row(ref, node));
    if (found) row = *std::move(found);
  }
  Json info{{"id", std::move(id)}};
  info.update(place_of(ref));
  bool has_lines = slice.is_text && slice.total_lines.has_value();
  info.update({{"kind", "item"},
               {"size_bytes", node.size},
               {"lines", has_lines ? Json(*slice.total_lines) : Json()},
               {"mime", row.mime.empty() ? std::string(mime_type_of(name_of(ref), slice.beginning)) : row.mime},
               {"is_text", slice.is_text},
               {"title", or_null(row.title)},
               {"source", or_null(row.source)},
               {"fetched_at", row.fetched_at ? Json(time_text({*row.fetched_at, 0})) : Json()},
               {"modified_at", time_text(node.mtime)},
               {"revision", or_null(slice.revision)}});
  return info;
}

Result<ToolAnswer> show_info(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Ref ref = WARREN_TRY(asked_ref(items, context, arguments));
  std::optional<Attributes> node;
  {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    node = WARREN_TRY(items.find(ref));
  }
  if (!node) return missing_item(items, context, ref);
  ToolAnswer answer;
  if (node->is_directory()) answer.structured = directory_info(ref, *node);
  else answer.structured = WARREN_TRY(item_info(context, items, ref, *node));
  return answer;
}

ToolAnswer call_info(ToolContext& context, const Json& arguments) { return answer_of(show_info(context, arguments)); }

}  // namespace

const Tool& context_info_tool() {
  static const Tool tool{
      .name = "context_info",
      .title = "Describe an item",
      .group = "context",
      .description =
          "Describes an item or directory without reading it. Returns id, size in bytes, lines, kind of "
          "content, source, times and revision. Example: {\"path\": \"disk:/notes/a.md\"}.",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = info_input,
      .output_schema = info_output,
      .call = call_info};
  return tool;
}

}  // namespace warren
