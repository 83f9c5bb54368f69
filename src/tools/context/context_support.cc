#include "tools/context/context_support.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/agent.h"
#include "base/ascii.h"
#include "base/path.h"
#include "base/printable.h"
#include "drives/known_drives.h"
#include "drives/uuid.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kNearbyItems = 5;

// How many bytes have to be changed, on the first 64 of each.
std::size_t distance_between(std::string_view from, std::string_view to) {
  from = from.substr(0, 64);
  to = to.substr(0, 64);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = i;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      std::size_t changed = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[to.size()];
}

std::string drives_hint(const std::vector<std::string>& drives) {
  std::string names;
  for (const std::string& drive : drives) names += (names.empty() ? "" : ", ") + drive;
  if (names.empty()) return "No drive has any items yet. Call context_write to make one.";
  return fmt::format("Drives: {}. Call {} to see what they hold.", names,
                     next_call("context_list_drives", Json::object()));
}

// The nearest of the directory's entries, by name.
std::string nearby_text(const Ref& dir, std::vector<Items::Entry> entries, std::string_view wanted) {
  std::ranges::stable_sort(entries, {},
                           [&](const Items::Entry& entry) { return distance_between(entry.name, wanted); });
  if (entries.size() > kNearbyItems) entries.resize(kNearbyItems);
  std::string all;
  for (const Items::Entry& entry : entries) {
    all += fmt::format("{}{}{}", all.empty() ? "" : ", ", printable(to_string(child_of(dir, entry.name))),
                       entry.node.is_directory() ? "/" : "");
  }
  return fmt::format("Nearby items under {}: {}. Call {} to see more.", printable(to_string(dir)), all,
                     next_call("context_tree", dir));
}

Result<std::string> find_nearby(Items& items, ToolContext& context, const Ref& ref) {
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  for (Ref at = ref; !at.is_drive();) {
    std::string wanted(name_of(at));
    at = parent_of(at);
    std::optional<Attributes> node = WARREN_TRY(items.find(at));
    if (!node || !node->is_directory()) continue;
    std::vector<Items::Entry> entries = WARREN_TRY(items.list(at));
    if (!entries.empty()) return nearby_text(at, std::move(entries), wanted);
  }
  std::vector<std::string> drives = WARREN_TRY(items.list_drives());
  return drives_hint(drives);
}

Result<Ref> ref_by_id(Items& items, ToolContext& context, const std::string& id) {
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  std::optional<Ref> found = WARREN_TRY(items.find_by_id(id));
  if (found) return *found;
  return Error(Code::kNotFound, fmt::format("no item has the id {}", id),
               fmt::format("Call {} to see what there is.", next_call("context_list_drives", Json::object())));
}

}  // namespace

Items items_of(ToolContext& context) { return {context.agent, context.view, context.clock, context.is_cancelled}; }

bool may_write(const ToolContext& context) { return !context.is_read_only && !context.agent.is_read_only(); }

bool is_cancelled(const ToolContext& context) {
  return context.is_cancelled != nullptr && context.is_cancelled->load();
}

Error cancelled_error() { return Error(Code::kUnavailable, "the call was cancelled"); }

Result<Ref> asked_ref(Items& items, ToolContext& context, const Json& arguments, const RefArguments& names) {
  std::string path = given_text(arguments, names.path);
  if (looks_like_uuid(path)) return ref_by_id(items, context, to_lower(path));
  if (looks_like_web_address(path)) {
    WebItem item = WARREN_TRY(find_web_item(path));
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    return items.find_page(item.ref, item.source);
  }
  std::string drive = given_text(arguments, names.drive, names.fallback);
  if (looks_like_ref(path)) {
    Ref whole = WARREN_TRY(parse_ref(path));
    bool contradicts = arguments.contains(names.drive) && drive != whole.drive;
    if (!contradicts) return whole;
    return Error(Code::kInvalid,
                 fmt::format("{} is {}, but {} is on drive {}", quote(names.drive), quote(drive), quote(path),
                             quote(whole.drive)),
                 fmt::format("Leave {} out, or give the path without a drive.", quote(names.drive)));
  }
  if (path.ends_with(':') && is_drive_name(std::string_view(path).substr(0, path.size() - 1))) {
    return Error(Code::kInvalid, fmt::format("{} has no path after the drive", quote(path)),
                 fmt::format("Give {}/PATH; the drive itself is {}/.", path, path));
  }
  if (!drive.empty()) return make_ref(drive, path);
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  std::vector<std::string> drives = WARREN_TRY(items.list_drives());
  return Error(Code::kInvalid,
               fmt::format("argument {} is missing, and {} is not a whole reference", quote(names.drive), quote(path)),
               "Give drive and path, or path as drive:/path or as an id. " + drives_hint(drives));
}

Json drive_schema() {
  return text_schema("Such as \"disk\", \"url\" or \"agent\"; not needed with a whole reference.");
}

Json path_schema() {
  Json schema = text_schema("On the drive; or a whole reference \"drive:/path\", a web address, an item's id.");
  schema["minLength"] = 1;
  schema["maxLength"] = 8192;
  return schema;
}

Json item_properties() { return {{"drive", drive_schema()}, {"path", path_schema()}}; }

Json place_of(const Ref& ref) { return {{"drive", ref.drive}, {"path", ref.path}, {"ref", to_string(ref)}}; }

Result<Json> id_of_item(Items& items, ToolContext& context, const Ref& ref, const Attributes& node) {
  {
    auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
    std::optional<ItemRow> row = WARREN_TRY(items.find_row(ref, node));
    if (row && (row->node == node.inode || !may_write(context))) return Json(row->id);
  }
  if (!may_write(context)) return Json();
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::optional<Attributes> now = WARREN_TRY(items.find(ref));
  if (!now || now->inode != node.inode) return Json();  // gone or replaced meanwhile
  std::optional<ItemRow> row = WARREN_TRY(items.touch(ref, *now));
  WARREN_TRY(unit->commit());
  return row ? Json(row->id) : Json();
}

ToolAnswer error_answer(std::string type, std::string message, std::string hint) {
  ToolAnswer answer;
  answer.error = {.type = std::move(type), .message = std::move(message), .next_action_hint = std::move(hint)};
  return answer;
}

ToolAnswer answer_of(Result<ToolAnswer> result) {
  if (result.ok()) return std::move(result).take_value();
  ToolAnswer answer;
  answer.error = tool_error(result.error());
  return answer;
}

std::string nearby_hint(Items& items, ToolContext& context, const Ref& ref) {
  Result<std::string> hint = find_nearby(items, context, ref);
  if (hint.ok()) return *std::move(hint);
  return fmt::format("Call {} to see what there is.", next_call("context_list_drives", Json::object()));
}

ToolAnswer missing_item(Items& items, ToolContext& context, const Ref& ref) {
  return error_answer("not_found", fmt::format("no item at {}", printable(to_string(ref))),
                      nearby_hint(items, context, ref));
}

ToolAnswer no_text_answer(const Ref& ref, std::string_view mime, std::uint64_t size_bytes) {
  return error_answer("no_text_content",
                      fmt::format("{} has no text: it is {} of {} bytes", printable(to_string(ref)), mime, size_bytes),
                      fmt::format("Call {} for what is known about it.", next_call("context_info", ref)));
}

std::string next_call(std::string_view tool, const Json& arguments) {
  return fmt::format("{}({})", tool, printable_json(dump_json(arguments)));
}

std::string next_call(std::string_view tool, const Ref& ref) {
  return next_call(tool, Json{{"drive", ref.drive}, {"path", ref.path}});
}

std::string given_text(const Json& arguments, std::string_view name, std::string_view fallback) {
  auto found = arguments.find(std::string(name));
  return found == arguments.end() ? std::string(fallback) : found->get<std::string>();
}

std::size_t given_count(const Json& arguments, std::string_view name, std::size_t fallback) {
  auto found = arguments.find(std::string(name));
  return found == arguments.end() ? fallback : found->get<std::size_t>();
}

bool given_flag(const Json& arguments, std::string_view name) {
  auto found = arguments.find(std::string(name));
  return found != arguments.end() && found->get<bool>();
}

}  // namespace warren
