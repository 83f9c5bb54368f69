#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "base/base64.h"
#include "base/path.h"
#include "base/utf8.h"
#include "fs/path_ops.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"
#include "vfs/on_record.h"

namespace warren {
namespace {

struct FilePart {
  std::string bytes;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // of the whole file

  std::uint64_t end() const { return offset + bytes.size(); }
  bool is_last() const { return end() >= size; }
};

Result<FilePart> read_part(ToolContext& context, const std::string& path, const Json& arguments) {
  std::uint64_t length = std::min(count_argument(arguments, "length", kToolPageBytes), kToolReadBytesMax);
  std::unique_ptr<Unit> unit = WARREN_TRY(context.view.begin(UnitAccess::kRead));
  Attributes node = WARREN_TRY(stat(context.view, path));
  if (node.is_directory()) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(path)));
  FilePart part;
  part.size = node.size;
  part.offset = std::min(count_argument(arguments, "offset", 0), node.size);
  part.bytes.resize(std::min(length, node.size - part.offset));
  // Also if nothing is left to read: whether it may be read is decided there.
  std::size_t got = WARREN_TRY(read_at(context.view, path, part.offset, as_mutable_bytes(part.bytes)));
  part.bytes.resize(got);
  return part;
}

// A part must not end inside a character.
void cut_to_characters(FilePart& part) {
  if (part.is_last()) return;
  std::size_t end = part.bytes.size();
  for (std::size_t back = 1; back <= std::min<std::size_t>(end, 4); ++back) {
    auto lead = static_cast<unsigned char>(part.bytes[end - back]);
    if ((lead & 0xC0U) == 0x80U) continue;
    if (lead >= 0xC0U && utf8_length(std::string_view(part.bytes).substr(end - back)) == 0 && end > back) {
      part.bytes.resize(end - back);
    }
    return;
  }
}

Json describe_part(const std::string& path, const FilePart& part) {
  Json found = Json::object();
  set_path_text(found, "path", path);
  found["size_bytes"] = part.size;
  found["offset"] = part.offset;
  found["length"] = part.bytes.size();
  found["next_offset"] = part.is_last() ? Json(nullptr) : Json(part.end());
  return found;
}

std::string nothing_read(const FilePart& part, std::uint64_t offset) {
  if (part.size == 0 && offset == 0) return "(the file is empty)";
  if (offset >= part.size) return fmt::format("(offset {} is past the end: the file has {} bytes)", offset, part.size);
  return fmt::format("(no byte was asked for: the file has {} bytes)", part.size);
}

Result<ToolAnswer> read_file_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "read"));
  FilePart part = WARREN_TRY(on_record(context.view, "read", path, read_part(context, path, arguments)));
  std::string encoding = text_argument(arguments, "encoding");
  if (encoding != "base64") cut_to_characters(part);
  ToolAnswer answer;
  answer.structured = describe_part(path, part);
  std::string rest;
  if (!part.is_last() && !part.bytes.empty()) {
    rest = fmt::format("\n[bytes {} to {} of {}; continue with \"offset\": {}]", part.offset, part.end() - 1, part.size,
                       part.end());
  }
  if (encoding == "base64") {
    answer.structured["encoding"] = "base64";
    answer.structured["content"] = encode_base64(as_bytes(part.bytes));
    answer.text = answer.structured["content"].get<std::string>() + rest;
    return answer;
  }
  if (is_utf8(part.bytes)) {
    answer.structured["encoding"] = "utf8";
    answer.structured["content"] = part.bytes;
    answer.text = part.bytes + rest;
    if (answer.text.empty()) answer.text = nothing_read(part, count_argument(arguments, "offset", 0));
    return answer;
  }
  if (encoding == "utf8") {
    return Error(Code::kInvalid, fmt::format("{} is not UTF-8 text", quote(path)), "Use \"encoding\": \"base64\".");
  }
  std::string mime = media_type_of(path, part.bytes);
  answer.structured["encoding"] = "blob";
  answer.text = fmt::format("{} holds {} bytes of {}, which follow{}", path, part.bytes.size(), mime, rest);
  answer.blob =
      ToolBlob{.bytes = std::move(part.bytes), .mime = std::move(mime), .uri = vfs_uri(context.names.agent_id(), path)};
  return answer;
}

Json read_file_input() {
  return object_schema(
      {{"path", text_schema("the file")},
       {"encoding", choice_schema("default: text; bytes that are not text as a blob", {"utf8", "base64"})},
       {"offset", whole_number_schema("first byte; default 0", 0)},
       {"length", whole_number_schema("bytes; default 1 MiB, at most 8 MiB", 0)}},
      {"path"});
}

Json read_file_output() {
  return object_schema({{"path", text_schema("")},
                        {"path_base64", text_schema("")},
                        {"size_bytes", whole_number_schema("of the whole file", 0)},
                        {"offset", whole_number_schema("", 0)},
                        {"length", whole_number_schema("", 0)},
                        {"next_offset", {{"type", {"integer", "null"}}, {"description", "null: this is the end"}}},
                        {"encoding", choice_schema("", {"utf8", "base64", "blob"})},
                        {"content", text_schema("")}},
                       {"path", "size_bytes", "offset", "length", "next_offset", "encoding"});
}

}  // namespace

const Tool& read_file_tool() {
  static constexpr Tool kTool{
      .name = "read_file",
      .title = "Read a file",
      .group = "files",
      .description =
          "Read a file of the agent's namespace; for documents on drives, by lines, use context_read. "
          "Returns text, or a blob for other bytes, up to 1 MiB at a time; continue with offset = "
          "next_offset. Example: {\"path\": \"/notes/plan.md\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = read_file_input,
      .output_schema = read_file_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(read_file_answer(context, arguments), text_argument(arguments, "path"));
      }};
  return kTool;
}

}  // namespace warren
