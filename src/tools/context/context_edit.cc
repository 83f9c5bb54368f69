#include <fmt/format.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "fs/path_ops.h"
#include "text/line_edits.h"
#include "text/lines.h"
#include "text/mime.h"
#include "tools/context/context_support.h"
#include "tools/files/line_slice.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kPatches = 10'000;

Json edit_input() {
  Json patch = object_schema({{"start_line", whole_number_schema("The first line, from 1.", 1)},
                              {"end_line", whole_number_schema("The last line; 0 inserts before start_line.", 0)},
                              {"content", text_schema("The new lines; empty deletes the range.")}},
                             {"start_line", "end_line", "content"});
  Json properties = item_properties();
  properties["patches"] = list_schema("Changes by the line numbers of the item as it is now.", std::move(patch));
  properties["patches"]["minItems"] = 1;
  properties["patches"]["maxItems"] = kPatches;
  properties["expected_revision"] = text_schema("Edit only this revision, as context_read returned it.");
  return object_schema(std::move(properties), {"path", "patches"});
}

Json edit_output() {
  Json id = text_schema("The item's id; null if it has none.");
  id["type"] = {"string", "null"};
  return object_schema(
      {{"id", std::move(id)},
       {"drive", text_schema("The drive.")},
       {"path", text_schema("The path on it.")},
       {"ref", text_schema("Both as drive:/path.")},
       {"patches_applied", whole_number_schema("All of them.", 1)},
       {"size_bytes", whole_number_schema("Of the new content.", 0)},
       {"lines", whole_number_schema("Of the new content.", 0)},
       {"previous_revision", text_schema("Of the content before.")},
       {"revision", text_schema("Of the new content.")}},
      {"id", "drive", "path", "ref", "patches_applied", "size_bytes", "lines", "previous_revision", "revision"});
}

// The contents are views into the arguments.
std::vector<LineEdit> edits_in(const Json& arguments) {
  std::vector<LineEdit> edits;
  for (const Json& patch : arguments.at("patches")) {
    edits.push_back({.start_line = patch.at("start_line").get<std::size_t>(),
                     .end_line = patch.at("end_line").get<std::size_t>(),
                     .content = patch.at("content").get_ref<const std::string&>()});
  }
  return edits;
}

ToolAnswer patch_error(const Ref& ref, const std::vector<LineEdit>& edits, const LineEditProblem& problem,
                       std::size_t lines) {
  const LineEdit& edit = edits[problem.edit];
  std::string hint = fmt::format("Nothing was changed. Call {} and number the patches by what it returns.",
                                 next_call("context_read", ref));
  switch (problem.kind) {
    case LineEditProblem::Kind::kOverlap:
      return error_answer("patch_overlap", fmt::format("patches[{}] overlaps patches[{}]", problem.edit, problem.other),
                          std::move(hint));
    case LineEditProblem::Kind::kEmpty:
      return error_answer(
          "invalid_argument",
          fmt::format("patches[{}] inserts nothing: its content is empty and end_line is 0", problem.edit),
          "To delete lines, give their last one as end_line.");
    case LineEditProblem::Kind::kOutOfRange: break;
  }
  std::string what = edit.end_line == 0 ? fmt::format("inserts before line {}", edit.start_line)
                                        : fmt::format("is for lines {} to {}", edit.start_line, edit.end_line);
  return error_answer("patch_out_of_range",
                      fmt::format("patches[{}] {}, but {} has {} lines", problem.edit, what, to_string(ref), lines),
                      std::move(hint));
}

struct Edited {
  std::string content;
  std::string previous_revision;
  Attributes node;
};

Result<std::optional<ToolAnswer>> check_editable(ToolContext& context, Items& items, const Ref& ref,
                                                 const std::optional<Attributes>& node) {
  if (!node) return std::optional(missing_item(items, context, ref));
  if (!node->is_file()) {
    return std::optional(error_answer("is_directory", to_string(ref) + " is a directory", "Only items can be edited."));
  }
  if (node->size <= kEditedBytes) return std::optional<ToolAnswer>();
  return std::optional(error_answer(
      "limit", fmt::format("{} has {} bytes; {} is the limit for editing", to_string(ref), node->size, kEditedBytes),
      "Split it into smaller items."));
}

Result<std::optional<ToolAnswer>> edit_in_unit(ToolContext& context, const Json& arguments, const Ref& ref,
                                               Edited& edited) {
  Items items = items_of(context);
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kWrite));
  std::optional<Attributes> node = WARREN_TRY(items.find(ref));
  std::optional<ToolAnswer> refused = WARREN_TRY(check_editable(context, items, ref, node));
  if (refused) return refused;
  std::string old = WARREN_TRY(read_file(context.view, namespace_path(ref), {.size_bytes_max = kEditedBytes}));
  if (!is_text(old)) return std::optional(no_text_answer(ref, mime_type_of(name_of(ref), old), old.size()));
  edited.previous_revision = revision_of(old);
  std::string expected = given_text(arguments, "expected_revision");
  if (!expected.empty() && expected != edited.previous_revision) {
    return std::optional(error_answer(
        "conflict",
        fmt::format("{} has changed: its revision is {}, not {}", to_string(ref), edited.previous_revision, expected),
        fmt::format("Call {} and make the patches again.", next_call("context_read", ref))));
  }
  std::vector<LineEdit> edits = edits_in(arguments);
  LineEditResult result = edit_lines(old, edits);
  if (result.problem) return std::optional(patch_error(ref, edits, *result.problem, count_lines(old)));
  edited.content = std::move(result.text);
  edited.node =
      WARREN_TRY(items.write(ref, edited.content, {.mime = std::string(mime_type_of(name_of(ref), edited.content))}));
  WARREN_TRY(unit->commit());
  return std::optional<ToolAnswer>();
}

Result<ToolAnswer> edit_item(ToolContext& context, const Json& arguments) {
  Items items = items_of(context);
  Ref ref = WARREN_TRY(asked_ref(items, context, arguments));
  Edited edited;
  std::optional<ToolAnswer> refused = WARREN_TRY(edit_in_unit(context, arguments, ref, edited));
  if (refused) return *std::move(refused);
  ToolAnswer answer;
  Json id = WARREN_TRY(id_of_item(items, context, ref, edited.node));
  answer.structured = {{"id", std::move(id)}};
  answer.structured.update(place_of(ref));
  answer.structured.update({{"patches_applied", arguments.at("patches").size()},
                            {"size_bytes", edited.content.size()},
                            {"lines", count_lines(edited.content)},
                            {"previous_revision", edited.previous_revision},
                            {"revision", revision_of(edited.content)}});
  return answer;
}

ToolAnswer call_edit(ToolContext& context, const Json& arguments) { return answer_of(edit_item(context, arguments)); }

}  // namespace

const Tool& context_edit_tool() {
  static const Tool tool{
      .name = "context_edit",
      .title = "Edit lines of an item",
      .group = "context",
      .description =
          "Changes lines of an item by their numbers, all patches or none; context_read shows them. Lines "
          "are counted from 1 in the item as it is before the call. Line ends stay as they are. Returns "
          "the new revision and number of lines. Example: {\"path\": \"agent:/todo.md\", \"patches\": "
          "[{\"start_line\": 2, \"end_line\": 3, \"content\": \"- two\\n\"}]}.",
      .hints = {.is_destructive = true},
      .input_schema = edit_input,
      .output_schema = edit_output,
      .call = call_edit};
  return tool;
}

}  // namespace warren
