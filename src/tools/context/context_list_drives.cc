#include <fmt/format.h>

#include "drives/known_drives.h"
#include "tools/context/context_support.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

Json list_drives_input() { return object_schema(Json::object(), {}); }

Json list_drives_output() {
  Json drive = object_schema({{"drive", text_schema("Its name.")},
                              {"items", whole_number_schema("How many items it has.", 0)},
                              {"size_bytes", whole_number_schema("Their size in bytes.", 0)},
                              {"description", text_schema("Where its items come from; empty if that is not known.")}},
                             {"drive", "items", "size_bytes", "description"});
  return object_schema(
      {{"drives", list_schema("By name.", std::move(drive))}, {"hint", text_schema("What to call next.")}},
      {"drives", "hint"});
}

Result<ToolAnswer> list_drives(ToolContext& context) {
  Items items = items_of(context);
  std::vector<std::string> names;
  {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    names = WARREN_TRY(items.list_drives());
  }
  ToolAnswer answer;
  Json drives = Json::array();
  for (const std::string& name : names) {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    WARREN_TRY(items.walk_items({.drive = name, .path = "/"}, [&](const Ref&, const Attributes& node) -> Result<bool> {
      if (is_cancelled(context)) return cancelled_error();
      ++count;
      bytes += node.size;
      return true;
    }));
    const KnownDrive* known = find_known_drive(name);
    drives.push_back({{"drive", name},
                      {"items", count},
                      {"size_bytes", bytes},
                      {"description", known == nullptr ? "" : known->description}});
    answer.text += fmt::format("{}:/  {} {}, {} bytes\n", name, count, count == 1 ? "item" : "items", bytes);
  }
  std::string hint = names.empty() ? "There are no items yet. context_write makes one."
                                   : fmt::format("Call {} to see what a drive holds.",
                                                 next_call("context_tree", {{"drive", names.front()}}));
  if (names.empty()) answer.text = hint + "\n";
  answer.structured = {{"drives", std::move(drives)}, {"hint", std::move(hint)}};
  return answer;
}

ToolAnswer call_list_drives(ToolContext& context, const Json&) { return answer_of(list_drives(context)); }

}  // namespace

const Tool& context_list_drives_tool() {
  static const Tool tool{
      .name = "context_list_drives",
      .title = "List drives",
      .group = "context",
      .description =
          "Lists the drives that hold items, with counts and sizes. A good first call when you do not know what there "
          "is. Example: {} returns [{\"drive\": \"disk\", \"items\": 12, …}].",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = list_drives_input,
      .output_schema = list_drives_output,
      .call = call_list_drives};
  return tool;
}

}  // namespace warren
