// fs grep: lines of an agent's files, printed as ripgrep prints them.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "base/printable.h"
#include "cli/agent/glob_check.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "context/line_search.h"
#include "fs/file.h"
#include "fs/tree_ops.h"
#include "text/glob.h"

namespace warren::cli {
namespace {

// The files that --glob selects: the last pattern that matches decides, as in ripgrep. One without '/' is for names.
class GlobFilter {
 public:
  explicit GlobFilter(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      bool excludes = pattern.starts_with('!');
      std::string_view text = std::string_view(pattern).substr(excludes ? 1 : 0);
      rules_.push_back({Glob(text), text.find('/') != text.npos, excludes, {}, false});
      if (!excludes) add_hidden_names(text);
      is_wanted_by_default_ = is_wanted_by_default_ && excludes;
    }
  }

  bool wants(std::string_view path) const {
    bool is_wanted = is_wanted_by_default_;
    for (const Rule& rule : rules_) {
      if (rule.glob.matches(rule.is_for_paths ? path : base_name(path))) is_wanted = !rule.excludes;
    }
    return is_wanted;
  }

  // Whether a pattern names this file or directory, whose name begins with '.': by a component that begins so too.
  bool names_hidden(std::string_view path, const Attributes& node) const {
    for (const Rule& rule : rules_) {
      bool is_file_named = rule.has_hidden_file && rule.glob.matches(rule.is_for_paths ? path : base_name(path));
      if (is_file_named && !node.is_directory()) return true;
      bool is_dir_named = std::any_of(rule.hidden_dirs.begin(), rule.hidden_dirs.end(),
                                      [&](const Glob& dir) { return dir.matches(base_name(path)); });
      if (is_dir_named && node.is_directory()) return true;
    }
    return false;
  }

 private:
  struct Rule {
    Glob glob;
    bool is_for_paths;
    bool excludes;
    std::vector<Glob> hidden_dirs;  // its components that begin with '.', except the last
    bool has_hidden_file;           // its last component begins with '.'
  };

  void add_hidden_names(std::string_view pattern) {
    Rule& rule = rules_.back();
    while (!pattern.empty()) {
      std::size_t end = std::min(pattern.find('/'), pattern.size());
      std::string_view component = pattern.substr(0, end);
      bool is_last = end == pattern.size();
      if (component.starts_with('.') && is_last) rule.has_hidden_file = true;
      else if (component.starts_with('.')) rule.hidden_dirs.emplace_back(component);
      pattern.remove_prefix(is_last ? end : end + 1);
    }
  }

  std::vector<Rule> rules_;
  bool is_wanted_by_default_ = true;
};

class GrepRun {
 public:
  GrepRun(Context& context, const Arguments& args, FileSystem& fs, const Pattern& pattern)
      : context_(context), args_(args), fs_(fs), pattern_(pattern), globs_(args.all("glob")) {}

  Status search_below(const std::string& start) {
    return walk(fs_, start, [&](const WalkEntry& entry) -> Result<WalkNext> {
      bool is_start = entry.path == start;
      bool is_hidden = !args_.has("hidden") && base_name(entry.path).starts_with('.') &&
                       !globs_.names_hidden(entry.path, entry.attributes);
      if (!is_start && is_hidden) return entry.attributes.is_directory() ? WalkNext::kSkip : WalkNext::kContinue;
      bool is_searched = entry.attributes.is_file() && (is_start || globs_.wants(entry.path));
      if (is_searched) WARREN_TRY(search_file(entry.path, is_start ? Named::kYes : Named::kNo));
      return WalkNext::kContinue;
    });
  }

  // A path that does not exist, too: the others are searched.
  Status search(const std::string& start) {
    Status searched = search_below(start);
    if (searched.ok() || !context_.out.status().ok()) return searched;
    has_failed_ = true;
    print_error(context_, searched.error());
    return Ok{};
  }

  bool has_found() const { return has_found_; }
  bool has_failed() const { return has_failed_; }

  void report_binary() const {
    if (binary_ == 0) return;
    context_.err.line(
        fmt::format("warren: skipped {} binary file{}; '--text' searches them", binary_, binary_ == 1 ? "" : "s"));
  }

 private:
  enum class Named { kNo, kYes };  // by the user, not found below a directory

  // What cannot be read is reported, and the rest is searched. What was removed meanwhile is not there. A binary file
  // is searched if it was named, but its lines are not for a terminal.
  Status search_file(const std::string& path, Named named) {
    std::uint64_t count = 0;
    bool is_listing = args_.has("files-with-matches");
    bool is_counting = args_.has("count");
    bool is_binary = false;
    auto visit = [&](const LineSearch::Line& line) {
      ++count;
      bool is_summary = is_binary && !args_.has("json");
      if (is_summary && !is_listing && !is_counting) context_.out.line(shown_path(path) + ": binary file matches");
      else if (!is_listing && !is_counting) print_line(path, line, count == 1);
      bool is_enough = is_listing || (is_summary && !is_counting) || !context_.out.status().ok();
      return is_enough ? LineSearch::Next::kStop : LineSearch::Next::kContinue;
    };
    LineSearch search(pattern_, args_.has("invert-match") ? Lines::kWithoutMatch : Lines::kWithMatch, visit);
    Status read = read_into(search, path, named, is_binary);
    if (!read.ok() && read.error().code() != Code::kNotFound) {
      has_failed_ = true;
      warn_if_not(context_, read);
    }
    if (count == 0) return context_.out.status();
    has_found_ = true;
    if (is_listing) context_.out.line(shown_path(path));
    else if (is_counting) context_.out.print("{}:{}\n", shown_path(path), count);
    return context_.out.status();
  }

  Status read_into(LineSearch& search, const std::string& path, Named named, bool& is_binary) {
    auto file = WARREN_TRY(File::open(fs_, path));
    buffer_.resize(limits::kCopyBytes);
    for (std::uint64_t offset = 0;;) {
      std::size_t count = WARREN_TRY(file->read_at(offset, as_mutable_bytes(buffer_)).within(quote(path)));
      std::string_view piece = std::string_view(buffer_).substr(0, count);
      if (offset == 0) is_binary = !args_.has("text") && is_binary_content(piece);
      if (is_binary && named == Named::kNo) {
        ++binary_;
        return file->close();
      }
      offset += count;
      bool is_over = count == 0 || search.take(piece) == LineSearch::Next::kStop;
      if (is_over) break;
    }
    search.finish();
    return file->close();
  }

  std::string shown_path(std::string_view path) const {
    return context_.out.paint(Ink::kCyan, context_.out.exact_name(path));
  }

  void print_line(const std::string& path, const LineSearch::Line& line, bool is_first_of_file) {
    Output& out = context_.out;
    if (args_.has("json")) return print_json(path, line);
    bool has_heading = out.is_terminal();
    if (has_heading && is_first_of_file) out.print("{}{}\n", has_printed_ ? "\n" : "", shown_path(path));
    has_printed_ = true;
    if (!has_heading) out.write(shown_path(path) + ":");
    if (!args_.has("no-line-number")) {
      out.print("{}:", out.paint(Ink::kGreen, std::to_string(line.number)));
    }
    out.line(highlighted(line.text));
  }

  std::string highlighted(std::string_view line) const {
    const Output& out = context_.out;
    std::string text;
    std::size_t shown = 0;
    bool has_matches = out.is_terminal() && !args_.has("invert-match");
    for (std::size_t from = 0; has_matches && from <= line.size();) {
      std::optional<PatternMatch> match = pattern_.find(line, from);
      if (!match) break;
      text += out.exact_name(line.substr(shown, match->begin - shown));
      if (match->size > 0) text += out.paint(Ink::kRed, out.exact_name(line.substr(match->begin, match->size)));
      shown = match->begin + match->size;
      from = match->size > 0 ? shown : shown + 1;
    }
    return text + out.exact_name(line.substr(shown));
  }

  void print_json(const std::string& path, const LineSearch::Line& line) {
    Json json;
    set_bytes(json, "path", path);
    json["line"] = line.number;
    set_bytes(json, "text", line.text);
    json["matches"] = Json::array();
    for (std::size_t from = 0; !args_.has("invert-match") && from <= line.text.size();) {
      std::optional<PatternMatch> match = pattern_.find(line.text, from);
      if (!match) break;
      std::size_t end = match->begin + match->size;
      if (match->size > 0) json["matches"].push_back({{"start", match->begin}, {"end", end}});
      from = match->size > 0 ? end : end + 1;
    }
    context_.out.json_line(json);
  }

  Context& context_;
  const Arguments& args_;
  FileSystem& fs_;
  const Pattern& pattern_;
  const GlobFilter globs_;
  std::string buffer_;
  std::uint64_t binary_ = 0;
  bool has_printed_ = false;
  bool has_found_ = false;
  bool has_failed_ = false;
};

Result<Exit> search_lines(Context& context, const Arguments& args) {
  if (args.has("json") && (args.has("count") || args.has("files-with-matches"))) {
    return refuse(context, "'--json' cannot be used with '--count' or '--files-with-matches'");
  }
  // With --regexp there is no PATTERN argument: the first word is a path.
  std::vector<std::string> patterns = args.all("regexp");
  std::vector<std::string> paths = args.all("PATH");
  std::optional<std::string> first = args.find("PATTERN");
  if (!patterns.empty() && first) paths.insert(paths.begin(), *first);
  else if (first) patterns.push_back(*first);
  if (patterns.empty()) {
    return refuse(context, fmt::format("missing argument PATTERN: `warren fs {} grep PATTERN [PATH...]`",
                                       printable(args.get("ID"))));
  }
  if (args.has("extended-regexp") && args.has("fixed-strings"))
    return refuse(context, "'--extended-regexp' and '--fixed-strings' cannot be used together");
  if (paths.empty()) paths.emplace_back("/");
  PatternOptions options{.kind = args.has("fixed-strings") ? PatternKind::kText : PatternKind::kExpression,
                         .letters = args.has("ignore-case") ? Letters::kAnyCase : Letters::kExact,
                         .whole = args.has("word-regexp") ? Whole::kWords : Whole::kAnything};
  for (const std::string& glob : args.all("glob")) WARREN_TRY(check_brackets(glob, Backslash::kEscapes));
  std::unique_ptr<Pattern> pattern = WARREN_TRY(Pattern::compile_any(patterns, options));
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  GrepRun grep(context, args, agent->fs(), *pattern);
  std::set<std::string> searched;
  for (const std::string& path : paths) {
    std::string start = WARREN_TRY(normalise_path(path));
    if (searched.insert(start).second) WARREN_TRY(grep.search(start));
  }
  WARREN_TRY(agent->check_recorded());
  WARREN_TRY(context.out.finish());  // the lines come before what is said about files that were skipped
  grep.report_binary();
  if (grep.has_failed()) return Exit::kUsage;
  return grep.has_found() ? Exit::kOk : Exit::kFailed;
}

// Exits as grep(1) does, so that a script can tell "no line matches" from everything that went wrong.
Result<Exit> run_grep(Context& context, const Arguments& args) {
  Result<Exit> done = search_lines(context, args);
  if (done.ok() || !context.out.status().ok()) return done;
  print_error(context, done.error());
  return Exit::kUsage;
}

}  // namespace

Command make_fs_grep() {
  return {
      .name = "grep",
      .summary = "Search in files",
      .details =
          "Prints path:line:text; on a terminal the lines of a file below its path. Names that begin with '.' and "
          "binary files are left out, except where an option or PATH names them. Exits with 0 if a "
          "line matches, 1 if none does, and 2 after an error. "
          "PATTERN is a regular expression (RE2).",
      .positionals = {{.name = "PATTERN", .help = "what to look for; not with '--regexp'", .times = Times::kOptional},
                      {.name = "PATH",
                       .help = "files and directories; default: /",
                       .times = Times::kAny,
                       .suggest = Suggest::kPaths}},
      .options = {{.name = "ignore-case", .letter = 'i', .help = "upper and lower case are the same"},
                  {.name = "recursive", .letter = 'r', .help = "search below directories; this is the default"},
                  {.name = "extended-regexp", .letter = 'E', .help = "PATTERN is an expression; this is the default"},
                  {.name = "fixed-strings", .letter = 'F', .help = "PATTERN is text, not an expression"},
                  {.name = "word-regexp", .letter = 'w', .help = "only whole words"},
                  {.name = "invert-match", .letter = 'v', .help = "the lines that do not match"},
                  {.name = "regexp",
                   .letter = 'e',
                   .value = "PATTERN",
                   .help = "look for this; repeatable: any of them",
                   .is_list = true},
                  {.name = "glob",
                   .letter = 'g',
                   .value = "GLOB",
                   .help = "only such files: *.md, /src/**; !GLOB: not these; repeatable",
                   .is_list = true},
                  {.name = "hidden", .letter = '.', .help = "also names that begin with '.'"},
                  {.name = "text", .letter = 'a', .help = "search binary files as if they were text"},
                  {.name = "files-with-matches", .letter = 'l', .help = "print only the paths of files"},
                  {.name = "count", .letter = 'c', .help = "print how many lines match in each file"},
                  {.name = "line-number", .letter = 'n', .help = "print line numbers; this is the default"},
                  {.name = "no-line-number", .letter = 'N', .help = "print no line numbers"},
                  {.name = "json", .help = "print one JSON object for each line"}},
      .subcommands = {},
      .handler = run_grep};
}

}  // namespace warren::cli
