#include "text/mime.h"
#include "tools/context/context_support.h"
#include "tools/files/line_slice.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json count_lines_input() { return object_schema(item_properties(), {"path"}); }

Json count_lines_output() {
  return object_schema({{"ref", text_schema("The item.")},
                        {"lines", whole_number_schema("How many lines it has; 0 if it is empty.", 0)}},
                       {"ref", "lines"});
}

Result<ToolAnswer> count_lines_of(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Ref ref = WARREN_TRY(asked_ref(items, context, arguments));
  std::optional<Attributes> node;
  {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    node = WARREN_TRY(items.find(ref));
  }
  if (!node) return missing_item(items, context, ref);
  if (!node->is_file()) {
    return error_answer("is_directory", to_string(ref) + " is a directory",
                        "Call " + next_call("context_tree", ref) + " to see what is in it.");
  }
  LineSlice slice = WARREN_TRY(read_line_slice(context.view, *node, {.limit = 0}));
  if (!slice.is_text) return no_text_answer(ref, mime_type_of(name_of(ref), slice.beginning), node->size);
  std::uint64_t lines = slice.total_lines ? *slice.total_lines : WARREN_TRY(count_file_lines(context.view, *node));
  ToolAnswer answer;
  answer.structured = {{"ref", to_string(ref)}, {"lines", lines}};
  return answer;
}

ToolAnswer call_count_lines(ToolContext& context, const Json& arguments) {
  return answer_of(count_lines_of(context, arguments));
}

}  // namespace

const Tool& context_count_lines_tool() {
  static const Tool tool{
      .name = "context_count_lines",
      .title = "Count lines",
      .group = "context",
      .description =
          "Counts the lines of an item of any size, to choose what context_read reads. Returns the number; "
          "an empty item has 0, a last line without a newline counts. Example: {\"drive\": \"disk\", "
          "\"path\": \"/log.txt\"}.",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = count_lines_input,
      .output_schema = count_lines_output,
      .call = call_count_lines};
  return tool;
}

}  // namespace warren
