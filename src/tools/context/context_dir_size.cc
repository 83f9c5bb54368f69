#include "tools/context/context_support.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json dir_size_input() {
  Json properties = item_properties();
  properties["path"]["description"] = "A directory or item; without it the whole drive.";
  return object_schema(std::move(properties), {});
}

Json dir_size_output() {
  return object_schema({{"ref", text_schema("What was measured.")},
                        {"items", whole_number_schema("How many items there are.", 0)},
                        {"size_bytes", whole_number_schema("Their size in bytes.", 0)}},
                       {"ref", "items", "size_bytes"});
}

Result<ToolAnswer> measure_dir(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Json asked = arguments;
  if (!asked.contains("path")) asked["path"] = "/";
  Ref ref = WARREN_TRY(asked_ref(items, context, asked));
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  Status walked = items.walk_items(ref, [&](const Ref&, const Attributes& node) -> Result<bool> {
    if (is_cancelled(context)) return cancelled_error();
    ++count;
    bytes += node.size;
    return true;
  });
  if (!walked.ok() && walked.error().code() == Code::kNotFound) return missing_item(items, context, ref);
  WARREN_TRY(std::move(walked));
  ToolAnswer answer;
  answer.structured = {{"ref", to_string(ref)}, {"items", count}, {"size_bytes", bytes}};
  return answer;
}

ToolAnswer call_dir_size(ToolContext& context, const Json& arguments) {
  return answer_of(measure_dir(context, arguments));
}

}  // namespace

const Tool& context_dir_size_tool() {
  static const Tool tool{
      .name = "context_dir_size",
      .title = "Measure a directory",
      .group = "context",
      .description =
          "Adds up what is at and below a path, to see whether it is small enough to read. Returns the "
          "number of items and their bytes. Example: {\"drive\": \"disk\", \"path\": \"/notes\"}.",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = dir_size_input,
      .output_schema = dir_size_output,
      .call = call_dir_size};
  return tool;
}

}  // namespace warren
