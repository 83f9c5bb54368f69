#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "base/path.h"
#include "base/printable.h"
#include "fs/path_ops.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"
#include "vfs/on_record.h"

namespace warren {
namespace {

constexpr std::uint64_t kTreeEntriesMax = 5000;

// Draws one directory after the other, and stops at the limit.
class TreeDrawing {
 public:
  TreeDrawing(ToolContext& context, std::uint64_t depth, std::uint64_t limit)
      : context_(context), depth_(depth), limit_(limit) {}

  Status draw(const std::string& path, const std::string& indent, std::uint64_t level) {
    WARREN_TRY(check_cancelled(context_));
    if (!WARREN_TRY(may_enter(context_, path))) {
      text_ += fmt::format("{}└── (may not be listed)\n", indent);
      return Ok{};
    }
    Result<std::vector<NamedAttributes>> listed = read_dir_plus(context_.view, path);
    if (!listed.ok() && listed.error().code() == Code::kNotFound && level > 1) return Ok{};  // removed meanwhile
    std::vector<NamedAttributes> entries = WARREN_TRY(std::move(listed));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (count_ == limit_) {
        is_cut_ = true;
        return Ok{};
      }
      ++count_;
      const NamedAttributes& one = entries[i];
      bool is_last = i + 1 == entries.size();
      bool is_directory = one.attributes.is_directory();
      (is_directory ? directories_ : files_) += 1;
      text_ +=
          fmt::format("{}{}{}{}\n", indent, is_last ? "└── " : "├── ", printable(one.name), is_directory ? "/" : "");
      if (!is_directory) continue;
      if (level < depth_) WARREN_TRY(draw(join_path(path, one.name), indent + (is_last ? "    " : "│   "), level + 1));
      else is_shallow_ = true;
      if (is_cut_) return Ok{};
    }
    return Ok{};
  }

  ToolAnswer answer(const std::string& path) const {
    ToolAnswer made;
    std::string hint;
    if (is_cut_) hint = fmt::format("(only the first {} entries; call tree for a directory below, or find)\n", limit_);
    else if (is_shallow_) hint = fmt::format("(only {} levels; give a larger depth for more)\n", depth_);
    made.text = fmt::format("{}\n{}{}", path, text_, hint);
    set_path_text(made.structured, "path", path);
    made.structured["tree"] = made.text;
    made.structured["files"] = files_;
    made.structured["directories"] = directories_;
    made.structured["is_complete"] = !is_cut_ && !is_shallow_;
    return made;
  }

 private:
  ToolContext& context_;
  std::uint64_t depth_;
  std::uint64_t limit_;
  std::string text_;
  std::uint64_t count_ = 0;
  std::uint64_t files_ = 0;
  std::uint64_t directories_ = 0;
  bool is_cut_ = false;
  bool is_shallow_ = false;
};

Result<ToolAnswer> tree_answer(ToolContext& context, const Json& arguments) {
  std::string path = WARREN_TRY(path_argument(context, arguments, "path", "list"));
  TreeDrawing drawing(context, std::min<std::uint64_t>(count_argument(arguments, "depth", 3), 64),
                      std::min<std::uint64_t>(count_argument(arguments, "limit", 500), kTreeEntriesMax));
  WARREN_TRY(on_record(context.view, "list", path,
                       read_dir(context.view, path)));  // a start that may not be listed is an error
  WARREN_TRY(drawing.draw(path, "", 1));
  return drawing.answer(path);
}

Json tree_input() {
  Json depth = whole_number_schema("levels; default 3", 1);
  depth["maximum"] = 64;
  Json limit = whole_number_schema("entries; default 500", 1);
  limit["maximum"] = kTreeEntriesMax;
  return object_schema({{"path", text_schema("the directory; default /")}, {"depth", depth}, {"limit", limit}}, {});
}

Json tree_output() {
  return object_schema({{"path", text_schema("")},
                        {"path_base64", text_schema("")},
                        {"tree", text_schema("")},
                        {"files", whole_number_schema("", 0)},
                        {"directories", whole_number_schema("", 0)},
                        {"is_complete", flag_schema("false: something was left out")}},
                       {"path", "tree", "files", "directories", "is_complete"});
}

}  // namespace

const Tool& tree_tool() {
  static constexpr Tool kTool{
      .name = "tree",
      .title = "Show a directory tree",
      .group = "files",
      .description =
          "Draw a directory and what is below it. Use it first, to learn what there is; find and readdir "
          "go on in large ones. Returns the drawing, cut where it is too large. Example: {\"path\": \"/\", "
          "\"depth\": 2}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = tree_input,
      .output_schema = tree_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(tree_answer(context, arguments), text_argument(arguments, "path", "/"));
      }};
  return kTool;
}

}  // namespace warren
