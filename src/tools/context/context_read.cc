#include <fmt/format.h>

#include "documents/document_text.h"
#include "fs/path_ops.h"
#include "text/mime.h"
#include "tools/context/context_support.h"
#include "tools/files/line_slice.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kReadLines = 2000;

Json read_input() {
  Json properties = item_properties();
  properties["offset"] = whole_number_schema("The first line to read, from 1. Default 1.", 1);
  properties["column"] = whole_number_schema("The first byte of that line, from 1: for lines longer than a page.", 1);
  properties["limit"] = whole_number_schema("How many lines to read. Default 2000.", 1);
  properties["extract"] = flag_schema(
      "Read the text of an HTML page instead of its source. PDFs and office documents are always read so. Default "
      "false.");
  return object_schema(std::move(properties), {"path"});
}

Json read_output() {
  Json id = text_schema("The item's id; null if it has none.");
  id["type"] = {"string", "null"};
  Json total = whole_number_schema("Lines of the whole item; null if it is too large to be counted here.", 0);
  total["type"] = {"integer", "null"};
  Json revision = text_schema("Names the content, for context_edit; null if it is too large to be edited.");
  revision["type"] = {"string", "null"};
  Json next = whole_number_schema("The offset to go on with; null at the end.", 1);
  next["type"] = {"integer", "null"};
  Json next_column = next;
  next_column["description"] = "The column to go on with; null at the end.";
  return object_schema({{"id", std::move(id)},
                        {"drive", text_schema("The drive.")},
                        {"path", text_schema("The path on it.")},
                        {"ref", text_schema("Both as drive:/path.")},
                        {"mime", text_schema("What kind of content it is.")},
                        {"content", text_schema("The lines.")},
                        {"offset", whole_number_schema("The number of the first one.", 1)},
                        {"lines", whole_number_schema("How many there are in content.", 0)},
                        {"total_lines", std::move(total)},
                        {"size_bytes", whole_number_schema("Of the whole item.", 0)},
                        {"revision", std::move(revision)},
                        {"is_extracted", flag_schema("Whether content is the text of a document, not its source.")},
                        {"next_offset", std::move(next)},
                        {"next_column", std::move(next_column)}},
                       {"id", "drive", "path", "ref", "mime", "content", "offset", "lines", "total_lines", "size_bytes",
                        "revision", "is_extracted", "next_offset", "next_column"});
}

ToolAnswer offset_error(const Ref& ref, std::size_t offset, std::uint64_t lines) {
  return error_answer("invalid_argument",
                      fmt::format("{} has {} lines; line {} is after its end", to_string(ref), lines, offset),
                      fmt::format("Call {} with an offset from 1 to {}.", next_call("context_read", ref), lines));
}

// For models that read text only: the lines, and what to call for the rest.
std::string read_text(const Ref& ref, const LineSlice& slice, const SliceOptions& options) {
  if (slice.next_offset == 0) return slice.text;
  Json next{{"drive", ref.drive}, {"path", ref.path}, {"offset", slice.next_offset}};
  if (slice.next_column > 1) next["column"] = slice.next_column;
  return fmt::format("{}{}[{} from line {}; the rest: {}]\n", slice.text, slice.text.ends_with('\n') ? "" : "\n",
                     slice.line_count == 1 ? "1 line" : fmt::format("{} lines", slice.line_count), options.offset,
                     next_call("context_read", next));
}

// As it was recognised when it was added, unless it has changed since.
Result<std::string> mime_of_item(Items& items, ToolContext& context, const Ref& ref, const Attributes& node,
                                 std::string_view beginning) {
  auto unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  std::optional<ItemRow> row = WARREN_TRY(items.find_row(ref, node));
  if (row && !row->mime.empty()) return row->mime;
  return std::string(mime_type_of(name_of(ref), beginning));
}

// The lines of what a document says. The revision stays that of its bytes.
Result<LineSlice> read_document(ToolContext& context, const Ref& ref, std::string_view mime, const LineSlice& source,
                                const SliceOptions& options) {
  LastDocument unkept;
  LastDocument& last = context.last_document != nullptr ? *context.last_document : unkept;
  std::string key = fmt::format("{} {}", mime, source.revision);
  if (source.revision.empty() || last.key != key) {
    std::string bytes = WARREN_TRY(read_file(context.view, namespace_path(ref), {.size_bytes_max = kDocumentBytes}));
    std::optional<DocumentText> document = WARREN_TRY(extract_text(mime, bytes));
    last = {std::move(key), document ? std::move(document->text) : std::string()};
  }
  LineSlice slice = slice_text(last.text, options);
  slice.revision = source.revision;
  return slice;
}

Result<ToolAnswer> read_item(ToolContext& context, const Json& arguments) {
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
  SliceOptions options{.offset = given_count(arguments, "offset", 1),
                       .column = given_count(arguments, "column", 1),
                       .limit = given_count(arguments, "limit", kReadLines)};
  LineSlice slice = WARREN_TRY(read_line_slice(context.view, *node, options));
  std::string mime = WARREN_TRY(mime_of_item(items, context, ref, *node, slice.beginning));
  bool is_source_useless = mime == "application/pdf";
  bool is_extracted = is_document(mime) && (is_source_useless || !slice.is_text || given_flag(arguments, "extract"));
  if (is_extracted) slice = WARREN_TRY(read_document(context, ref, mime, slice, options));
  if (!slice.is_text) return no_text_answer(ref, mime, node->size);
  bool is_after_end = options.offset > 1 && slice.total_lines && options.offset > *slice.total_lines;
  if (is_after_end) return offset_error(ref, options.offset, *slice.total_lines);
  ToolAnswer answer;
  answer.text = read_text(ref, slice, options);
  Json id = WARREN_TRY(id_of_item(items, context, ref, *node));
  answer.structured = {{"id", std::move(id)}};
  answer.structured.update(place_of(ref));
  answer.structured.update({{"mime", mime},
                            {"content", std::move(slice.text)},
                            {"offset", options.offset},
                            {"lines", slice.line_count},
                            {"total_lines", slice.total_lines ? Json(*slice.total_lines) : Json()},
                            {"size_bytes", node->size},
                            {"is_extracted", is_extracted},
                            {"revision", slice.revision.empty() ? Json() : Json(slice.revision)},
                            {"next_offset", slice.next_offset == 0 ? Json() : Json(slice.next_offset)},
                            {"next_column", slice.next_offset == 0 ? Json() : Json(slice.next_column)}});
  return answer;
}

ToolAnswer call_read(ToolContext& context, const Json& arguments) { return answer_of(read_item(context, arguments)); }

}  // namespace

const Tool& context_read_tool() {
  static const Tool tool{.name = "context_read",
                         .title = "Read an item",
                         .group = "context",
                         .description =
                             "Reads the text of an item, by lines; to find places in it use search. By drive and path, "
                             "by drive:/path, or by "
                             "id. Returns at most 2000 lines or 256 KiB; next_offset says where to go on. Example: "
                             "{\"drive\": \"disk\", \"path\": \"/notes/a.md\", "
                             "\"offset\": 1, \"limit\": 100}.",
                         .hints = {.is_read_only = true, .is_idempotent = true},
                         .input_schema = read_input,
                         .output_schema = read_output,
                         .call = call_read};
  return tool;
}

}  // namespace warren
