#include <fmt/format.h>

#include "base/base64.h"
#include "base/limits.h"
#include "text/lines.h"
#include "text/mime.h"
#include "tools/context/context_support.h"
#include "tools/context/tree_text.h"
#include "tools/files/line_slice.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr TreeOptions kSnapshot{.depth_max = 2, .entries_max = 10, .lines_max = 100};

Json write_input() {
  Json properties = item_properties();
  properties["drive"]["description"] = "The drive. Default \"agent\".";
  properties["content"] = text_schema("The whole content.");
  properties["content"]["maxLength"] = limits::kValueBytes;
  properties["encoding"] =
      choice_schema("How content is given: as text, or as base64 for bytes. Default \"text\".", {"text", "base64"});
  properties["on_conflict"] =
      choice_schema("What to do if the item exists. Default \"error\".", {"error", "overwrite"});
  properties["expected_revision"] = text_schema("Overwrite only this revision, as context_read returned it.");
  properties["title"] = text_schema("A title for the item.");
  properties["title"]["maxLength"] = 1000;
  return object_schema(std::move(properties), {"path", "content"});
}

Json write_output() {
  Json id = text_schema("The item's id; null if it cannot have one.");
  id["type"] = {"string", "null"};
  Json lines = whole_number_schema("Lines of its text; null if it is not text.", 0);
  lines["type"] = {"integer", "null"};
  return object_schema(
      {{"id", std::move(id)},
       {"drive", text_schema("The drive.")},
       {"path", text_schema("The path on it.")},
       {"ref", text_schema("Both as drive:/path.")},
       {"created", flag_schema("False if it existed already.")},
       {"size_bytes", whole_number_schema("Of the content.", 0)},
       {"lines", std::move(lines)},
       {"mime", text_schema("What kind of content it is.")},
       {"revision", text_schema("Names the content, for context_edit.")},
       {"tree", text_schema("The directory it is in now.")},
       {"tree_is_complete", flag_schema("Whether that shows everything.")}},
      {"id", "drive", "path", "ref", "created", "size_bytes", "lines", "mime", "revision", "tree", "tree_is_complete"});
}

// Whether the item may be replaced; an answer says why not.
Result<std::optional<ToolAnswer>> find_conflict(ToolContext& context, const Json& arguments, const Ref& ref,
                                                const Attributes& old) {
  if (!old.is_file()) {
    return std::optional(error_answer("is_directory", to_string(ref) + " is a directory", "Choose a path inside it."));
  }
  std::string expected = given_text(arguments, "expected_revision");
  if (!expected.empty()) {
    LineSlice now = WARREN_TRY(read_line_slice(context.view, old, {.limit = 0}));
    if (now.revision == expected) return std::optional<ToolAnswer>();
    return std::optional(error_answer(
        "conflict", fmt::format("{} has changed: its revision is {}, not {}", to_string(ref), now.revision, expected),
        fmt::format("Call {} and decide again.", next_call("context_read", ref))));
  }
  if (given_text(arguments, "on_conflict", "error") == "overwrite") return std::optional<ToolAnswer>();
  return std::optional(error_answer(
      "already_exists", to_string(ref) + " exists already",
      fmt::format("Call {} to see it, context_edit to change part of it, or context_write with \"on_conflict\": "
                  "\"overwrite\" to replace it.",
                  next_call("context_read", ref))));
}

Result<std::string> content_of(const Json& arguments) {
  std::string content = given_text(arguments, "content");
  if (given_text(arguments, "encoding", "text") == "text") return content;
  std::optional<std::string> bytes = decode_base64(content);
  if (bytes) return *std::move(bytes);
  return Error(Code::kInvalid, "argument 'content' is not base64",
               "Encode the bytes by RFC 4648, with padding and without line breaks.");
}

struct Written {
  Attributes node;
  bool is_new = false;
  std::string id;
  TreeText tree;
};

Result<std::optional<ToolAnswer>> write_in_unit(ToolContext& context, const Json& arguments, const Ref& ref,
                                                const std::string& content, Written& written) {
  Items items = items_of(context);
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::optional<Attributes> old = WARREN_TRY(items.find(ref));
  if (old) {
    std::optional<ToolAnswer> conflict = WARREN_TRY(find_conflict(context, arguments, ref, *old));
    if (conflict) return conflict;
  } else if (arguments.contains("expected_revision")) {
    return std::optional(error_answer("conflict", to_string(ref) + " does not exist any more",
                                      "Leave expected_revision out to make it anew."));
  }
  written.is_new = !old;
  ItemOrigin origin{.mime = std::string(mime_type_of(name_of(ref), content)), .title = given_text(arguments, "title")};
  written.node = WARREN_TRY(items.write(ref, content, origin));
  std::optional<ItemRow> row = WARREN_TRY(items.find_row(ref, written.node));
  if (row) written.id = row->id;
  written.tree = WARREN_TRY(draw_tree(items, parent_of(ref), kSnapshot));
  WARREN_TRY(unit->commit());
  return std::optional<ToolAnswer>();
}

Result<ToolAnswer> write_item(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Ref ref = WARREN_TRY(asked_ref(items, context, arguments, {.fallback = "agent"}));
  std::string content = WARREN_TRY(content_of(arguments));
  Written written;
  std::optional<ToolAnswer> refused = WARREN_TRY(write_in_unit(context, arguments, ref, content, written));
  if (refused) return *std::move(refused);
  ToolAnswer answer;
  answer.text = fmt::format("{} {} ({} bytes)\n{}", written.is_new ? "created" : "replaced", to_string(ref),
                            content.size(), written.tree.text);
  answer.structured = {{"id", written.id.empty() ? Json() : Json(written.id)}};
  answer.structured.update(place_of(ref));
  answer.structured.update({{"created", written.is_new},
                            {"size_bytes", content.size()},
                            {"lines", is_text(content) ? Json(count_lines(content)) : Json()},
                            {"mime", mime_type_of(name_of(ref), content)},
                            {"revision", revision_of(content)},
                            {"tree", std::move(written.tree.text)},
                            {"tree_is_complete", written.tree.is_complete}});
  return answer;
}

ToolAnswer call_write(ToolContext& context, const Json& arguments) { return answer_of(write_item(context, arguments)); }

}  // namespace

const Tool& context_write_tool() {
  static const Tool tool{
      .name = "context_write",
      .title = "Write an item",
      .group = "context",
      .description =
          "Writes a whole item and makes the directories above it. An item that exists is replaced only with "
          "\"on_conflict\": \"overwrite\" or the expected_revision. Returns its id, ref and the directory it is in. "
          "Example: {\"path\": \"/notes/todo.md\", \"content\": \"- one\\n\"}.",
      .hints = {.is_destructive = true},
      .input_schema = write_input,
      .output_schema = write_output,
      .call = call_write};
  return tool;
}

}  // namespace warren
