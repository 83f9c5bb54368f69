#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "agent/files/file_verbs.h"
#include "base/base64.h"
#include "base/path.h"
#include "context/line_search.h"
#include "context/pattern.h"
#include "fs/path_ops.h"
#include "text/glob.h"
#include "tools/files/file_tools.h"
#include "tools/files/search_walk.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kShownLineBytes = 500;
constexpr std::uint64_t kGrepFiles = 100'000;

std::string shown_line(std::string_view line) {
  if (line.size() <= kShownLineBytes) return std::string(line);
  std::size_t end = kShownLineBytes;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return fmt::format("{}… ({} bytes)", line.substr(0, end), line.size());
}

class Grep {
 public:
  Grep(ToolContext& context, const Pattern& pattern, std::size_t limit)
      : context_(context), pattern_(pattern), limit_(limit) {}

  // The next page begins with the file whose matches did not fit. Of a file that has more than fill a page, only the
  // first are shown; the answer says that there is more.
  Result<WalkNext> look_into(const WalkEntry& entry) {
    if (++files_ > kGrepFiles) {
      is_cut_ = true;
      return WalkNext::kStop;
    }
    if (context_.progress && files_ % 256 == 0) {
      context_.progress({.done = static_cast<double>(files_), .total = {}, .message = entry.path});
    }
    if (entry.attributes.size > kToolFileBytesMax || !WARREN_TRY(context_.view.may(Rights::kRead, entry.path))) {
      ++passed_over_;
      return WalkNext::kContinue;
    }
    Result<std::string> content = read_file(context_.view, entry.path, {.size_bytes_max = kToolFileBytesMax});
    if (!content.ok()) {  // removed meanwhile, or a rule that names this file alone
      ++passed_over_;
      return WalkNext::kContinue;
    }
    if (is_binary_content(*content)) return WalkNext::kContinue;
    return look_at_lines(entry.path, *content);
  }

  ToolAnswer answer() {
    ToolAnswer made;
    for (const Json& one : matches_) {
      made.text += fmt::format("{}:{}:{}\n", one["path"].get<std::string>(), one["line"].get<std::size_t>(),
                               one["text"].get<std::string>());
    }
    if (matches_.empty()) made.text = "no line matches";
    if (is_cut_) made.text += "(there is more; continue with next_cursor, or narrow the search)";
    made.structured["matches"] = std::move(matches_);
    made.structured["files_searched"] = files_;
    made.structured["files_passed_over"] = passed_over_;
    made.structured["next_cursor"] = is_cut_ && !last_.empty() ? Json(encode_base64(as_bytes(last_))) : Json(nullptr);
    return made;
  }

 private:
  WalkNext look_at_lines(const std::string& path, std::string_view content) {
    Json found = Json::array();
    LineSearch search(pattern_, Lines::kWithMatch, [&](const LineSearch::Line& line) {
      if (matches_.size() + found.size() == limit_) {
        is_cut_ = true;
        return LineSearch::Next::kStop;
      }
      Json one = Json::object();
      set_path_text(one, "path", path);
      set_path_uri(one, context_, path);
      one["line"] = line.number;
      one["text"] = shown_line(line.text);
      found.push_back(std::move(one));
      return LineSearch::Next::kContinue;
    });
    search.take(content);
    if (search.finish() == LineSearch::Next::kStop) {
      if (matches_.empty()) keep(found, path);  // one file fills the page: its rest is not shown
      return WalkNext::kStop;
    }
    keep(found, path);
    return WalkNext::kContinue;
  }

  void keep(Json& found, const std::string& path) {
    for (Json& one : found) matches_.push_back(std::move(one));
    last_ = path;
  }

  ToolContext& context_;
  const Pattern& pattern_;
  std::size_t limit_;
  Json matches_ = Json::array();
  std::string last_;  // the last file whose matches are all here
  std::uint64_t files_ = 0;
  std::uint64_t passed_over_ = 0;
  bool is_cut_ = false;
};

// The trail repeats what was read and written, and the policy's history what it said: nobody looks for that by default.
bool is_about_the_agent(std::string_view path) { return path == "/audit" || path == "/policy"; }

Result<ToolAnswer> grep_answer(ToolContext& context, const Json& arguments) {
  std::string start = WARREN_TRY(path_argument(context, arguments, "path", "read"));
  std::optional<std::string> after = decode_base64(text_argument(arguments, "cursor"));
  if (!after) return Error(Code::kInvalid, "'cursor' is not a cursor", "Use next_cursor of the last page.");
  std::unique_ptr<Pattern> pattern =
      WARREN_TRY(Pattern::compile(text_argument(arguments, "pattern"),
                                  flag_argument(arguments, "regex") ? PatternKind::kExpression : PatternKind::kText,
                                  flag_argument(arguments, "ignore_case") ? Letters::kAnyCase : Letters::kExact));
  std::string files = text_argument(arguments, "files", "*");
  Grep grep(context, *pattern, std::min<std::size_t>(count_argument(arguments, "limit", 100), kToolPageEntries));
  Attributes at = WARREN_TRY(lstat(context.view, start));
  if (at.is_file()) WARREN_TRY(check_right(context, Rights::kRead, start, "read"));
  WARREN_TRY(search_walk(context, start, {.after = *after}, [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (start == "/" && is_about_the_agent(entry.path)) return WalkNext::kSkip;
    if (!entry.attributes.is_file() || !matches_glob(files, base_name(entry.path))) return WalkNext::kContinue;
    return grep.look_into(entry);
  }));
  return grep.answer();
}

Json grep_input() {
  Json pattern = text_schema("the text to look for in each line");
  pattern["minLength"] = 1;
  return object_schema({{"pattern", std::move(pattern)},
                        {"path", text_schema("a file or directory; default / without /audit and /policy")},
                        {"regex", flag_schema("the pattern is a regular expression (RE2)")},
                        {"ignore_case", flag_schema("")},
                        {"files", text_schema("only files with such names: *.md")},
                        {"limit", whole_number_schema("lines; default 100, at most 1000", 1)},
                        {"cursor", text_schema("next_cursor of the page before")}},
                       {"pattern"});
}

Json grep_output() {
  Json match = object_schema({{"path", text_schema("")},
                              {"path_base64", text_schema("if it is not UTF-8")},
                              {"uri", text_schema("then give this as the path")},
                              {"line", whole_number_schema("", 1)},
                              {"text", text_schema("")}},
                             {"path", "line", "text"});
  return object_schema({{"matches", list_schema("", std::move(match))},
                        {"files_searched", whole_number_schema("", 0)},
                        {"files_passed_over", whole_number_schema("too large, or not to be read", 0)},
                        {"next_cursor", {{"type", {"string", "null"}}}}},
                       {"matches", "files_searched", "files_passed_over", "next_cursor"});
}

}  // namespace

const Tool& grep_tool() {
  static constexpr Tool kTool{
      .name = "grep",
      .title = "Search in files",
      .group = "files",
      .description =
          "Find lines that contain a text, or match a regular expression, in the files below a directory; "
          "to search documents by meaning use search. Returns paths, line numbers and lines, in pages. "
          "Example: {\"pattern\": \"TODO\", \"path\": \"/src\", \"files\": \"*.py\"}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = grep_input,
      .output_schema = grep_output,
      .call = [](ToolContext& context, const Json& arguments) {
        return file_answer(grep_answer(context, arguments), text_argument(arguments, "path", "/"));
      }};
  return kTool;
}

}  // namespace warren
