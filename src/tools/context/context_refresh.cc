#include <fmt/format.h>

#include "drives/ingest.h"
#include "tools/context/context_support.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json refresh_input() {
  Json properties = item_properties();
  properties["on_conflict"] = choice_schema(
      "What to do if the item was changed here since it was fetched. Default \"error\".", {"error", "overwrite"});
  return object_schema(std::move(properties), {"path"});
}

Json refresh_output() {
  return object_schema(
      {{"ref", text_schema("The item.")}, {"changed", flag_schema("Whether the source had another content.")}},
      {"ref", "changed"});
}

Result<ToolAnswer> refresh_item(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Ref ref = WARREN_TRY(asked_ref(items, context, arguments));
  bool is_there = false;
  {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    std::optional<Attributes> node = WARREN_TRY(items.find(ref));
    is_there = node && node->is_file();
  }
  if (!is_there) return missing_item(items, context, ref);
  bool may_replace = given_text(arguments, "on_conflict", "error") == "overwrite";
  Ingest ingest(context.agent, context.view, context.clock,
                {.on_conflict = may_replace ? OnConflict::kOverwrite : OnConflict::kRefresh});
  WARREN_TRY(ingest.refresh(ref));
  WARREN_TRY(ingest.finish());
  const IngestReport& report = ingest.report();
  if (!report.failures.empty()) {
    Json again = arguments;
    again["on_conflict"] = "overwrite";
    return error_answer(
        "conflict", fmt::format("{}: {}", to_string(ref), report.failures.front().message),
        fmt::format("It was changed here. Call {} to replace it all the same.", next_call("context_refresh", again)));
  }
  ToolAnswer answer;
  answer.structured = {{"ref", to_string(ref)}, {"changed", report.replaced > 0}};
  return answer;
}

ToolAnswer call_refresh(ToolContext& context, const Json& arguments) {
  return answer_of(refresh_item(context, arguments));
}

}  // namespace

const Tool& context_refresh_tool() {
  static const Tool tool{
      .name = "context_refresh",
      .title = "Fetch an item again",
      .group = "context",
      .description =
          "Fetches an item that came from the web again, from where it came, if it may be out of date. "
          "Returns whether it has changed. Example: {\"path\": \"url:/https://example.com/post\"}.",
      .hints = {.is_destructive = true, .is_idempotent = true},
      .input_schema = refresh_input,
      .output_schema = refresh_output,
      .call = call_refresh};
  return tool;
}

}  // namespace warren
