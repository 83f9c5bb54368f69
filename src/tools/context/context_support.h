// What the tools on items share: finding the item that the arguments name, and errors that say what to call next.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "drives/drive_ref.h"
#include "drives/items.h"
#include "tools/schema.h"
#include "tools/tool.h"

namespace warren {

// The items as the caller of the tool sees them. For one call.
Items items_of(ToolContext& context);
bool may_write(const ToolContext& context);
bool is_cancelled(const ToolContext& context);
Error cancelled_error();

// Which arguments name the item, and the drive that is meant where none is named.
struct RefArguments {
  std::string_view drive = "drive";
  std::string_view path = "path";
  std::string fallback = {};  // empty: the drive must be named
};
// By drive and path, as "drive:/path", by a web address that belongs to a drive, or by id. Begins units of its own.
// kNotFound for an id that no item has.
Result<Ref> asked_ref(Items& items, ToolContext& context, const Json& arguments, const RefArguments& names = {});

// Schemas of these arguments.
Json drive_schema();
Json path_schema();
Json item_properties();  // drive and path

// {"drive", "path", "ref"}
Json place_of(const Ref& ref);
// The id of an item, which is given now if it has none and the agent can be written; otherwise null.
Result<Json> id_of_item(Items& items, ToolContext& context, const Ref& ref, const Attributes& node);

// Answers.
ToolAnswer error_answer(std::string type, std::string message, std::string hint);
ToolAnswer answer_of(Result<ToolAnswer> result);  // an error becomes one for the model
// not_found, with the items that are nearest to what was asked for. Begins a unit.
ToolAnswer missing_item(Items& items, ToolContext& context, const Ref& ref);
std::string nearby_hint(Items& items, ToolContext& context, const Ref& ref);
ToolAnswer no_text_answer(const Ref& ref, std::string_view mime, std::uint64_t size_bytes);

// `context_tree({"drive":"disk","path":"/a"})`
std::string next_call(std::string_view tool, const Json& arguments);
std::string next_call(std::string_view tool, const Ref& ref);

// An argument that may be left out.
std::string given_text(const Json& arguments, std::string_view name, std::string_view fallback = {});
std::size_t given_count(const Json& arguments, std::string_view name, std::size_t fallback);
bool given_flag(const Json& arguments, std::string_view name);

}  // namespace warren
