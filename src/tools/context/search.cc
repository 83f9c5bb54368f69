// search, and its other name context_search.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/ascii.h"
#include "base/date.h"
#include "base/path.h"
#include "context/search.h"
#include "tools/context/context_support.h"
#include "tools/files/file_tools.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kSearchResults = 10;

Json search_input() {
  Json query = text_schema(
      "What to look for: words, any of which may occur, or a question. \"Several words\" in quotes must "
      "occur as they are; wor* finds words that begin so.");
  query["maxLength"] = 4096;
  Json limit = whole_number_schema("How many results. Default 10.", 1);
  limit["maximum"] = 100;
  Json offset =
      whole_number_schema("How many of the best to leave out: next_offset of the answer before. Default 0.", 0);
  offset["maximum"] = 1000;
  Json pattern = text_schema("A regular expression (RE2) that results match; instead of query, or with it.");
  pattern["maxLength"] = 1000;
  return object_schema(
      {{"query", std::move(query)},
       {"pattern", std::move(pattern)},
       {"drive", text_schema("Only items of this drive.")},
       {"path", text_schema("Only what is at or below this path of the drive; without a drive, of the namespace.")},
       {"glob",
        text_schema("Only items whose path in the namespace matches, such as /context/**/*.md or /project/src/**.")},
       {"mime", text_schema("Only items of this kind, such as text/markdown or text/*.")},
       {"since",
        text_schema("Only files changed at or after this time, in UTC, such as 2026-01-31 or 2026-01-31T12:00Z.")},
       {"until", text_schema("Only files changed at or before this time.")},
       {"limit", std::move(limit)},
       {"offset", std::move(offset)}},
      {});
}

Json search_output() {
  Json hit =
      object_schema({{"ref", text_schema("The item; for a file outside of the drives its path.")},
                     {"first_line", whole_number_schema("Of the place; 0 if only the name was found.", 0)},
                     {"last_line", whole_number_schema("Of the place.", 0)},
                     {"heading", text_schema("The headings above it.")},
                     {"snippet", text_schema("Some lines of it.")},
                     {"snippet_line", whole_number_schema("The number of the first of them.", 0)},
                     {"score", {{"type", "number"}, {"description", "To compare results of one search."}}},
                     {"found_by", list_schema("Which searches found it.", text_schema("text, meaning or pattern"))}},
                    {"ref", "first_line", "last_line", "heading", "snippet", "snippet_line", "score", "found_by"});
  return object_schema({{"results", list_schema("Best first.", std::move(hit))},
                        {"next_offset", {{"type", {"integer", "null"}}, {"description", "null: there are no more."}}},
                        {"hint", text_schema("What limits the results, and what to call next.")}},
                       {"results", "next_offset", "hint"});
}

bool shows_project(const ToolContext& context) {
  const std::vector<MountInfo>& mounts = (*context.names).mounts();
  return context.agent.overlay() && std::ranges::find(mounts, kProjectPath, &MountInfo::path) != mounts.end();
}

Result<std::optional<std::int64_t>> given_time(const Json& arguments, std::string_view name) {
  std::string text = given_text(arguments, name);
  if (text.empty()) return std::optional<std::int64_t>();
  std::optional<std::int64_t> seconds = parse_date(text);
  if (!seconds) seconds = parse_number<std::int64_t>(text);
  if (seconds) return seconds;
  return Error(Code::kInvalid, fmt::format("{}: {} is not a time", quote(name), quote(text)),
               "Give it as 2026-01-31 or 2026-01-31T12:00:00Z.");
}

Result<SearchQuery> query_in(ToolContext& context, const Json& arguments) {
  SearchQuery query;
  query.text = given_text(arguments, "query");
  query.pattern = given_text(arguments, "pattern");
  if (query.text.empty() && query.pattern.empty()) {
    return Error(Code::kInvalid, "neither 'query' nor 'pattern' is given", "Say what to look for in query.");
  }
  std::string drive = given_text(arguments, "drive");
  std::string path = given_text(arguments, "path");
  if (!drive.empty() || looks_like_ref(path)) {
    Ref ref = WARREN_TRY(looks_like_ref(path) ? parse_ref(path) : make_ref(drive, path.empty() ? "/" : path));
    query.below = namespace_path(ref);
  } else if (!path.empty()) {
    query.below = path;
  }
  if (arguments.contains("glob")) query.globs = {given_text(arguments, "glob")};
  query.mime = given_text(arguments, "mime");
  query.since = WARREN_TRY(given_time(arguments, "since"));
  query.until = WARREN_TRY(given_time(arguments, "until"));
  query.limit = given_count(arguments, "limit", kSearchResults);
  query.offset = given_count(arguments, "offset", 0);
  query.path_for_caller = [&context, has_project = shows_project(context)](
                              int tree, const std::string& at) -> std::optional<std::string> {
    if (!context.agent.base() || tree == kNamespaceTree) return at;
    return has_project ? std::optional(project_path_of(at)) : std::nullopt;
  };
  query.may_read = [&context](const std::string& at) -> Result<bool> {
    return context.view.may_read(at, OtherNames::kPossible);
  };
  return query;
}

std::string shown_ref(const std::string& path) {
  std::optional<Ref> ref = find_ref_of(path);
  return ref ? to_string(*ref) : path;
}

Json hit_of(const SearchHit& hit) {
  Json found_by = Json::array();
  if (hit.by_text) found_by.push_back("text");
  if (hit.by_meaning) found_by.push_back("meaning");
  if (hit.by_pattern) found_by.push_back("pattern");
  return {{"ref", shown_ref(hit.path)}, {"first_line", hit.first_line},   {"last_line", hit.last_line},
          {"heading", hit.heading},     {"snippet", hit.snippet},         {"snippet_line", hit.snippet_line},
          {"score", hit.score},         {"found_by", std::move(found_by)}};
}

// The index records hits in the files of the agent; those in the namespace of one with a base go through the view
// alone.
Status record_hits(ToolContext& context, const std::vector<SearchHit>& hits) {
  std::set<std::string> paths;
  for (const SearchHit& hit : hits) {
    if (hit.tree == kNamespaceTree) paths.insert(hit.path);
  }
  for (const std::string& path : paths) WARREN_TRY(context.view.record("read", path, Ok{}));
  return Ok{};
}

Result<ToolAnswer> search_items(ToolContext& context, const Json& arguments) {
  SearchQuery query = WARREN_TRY(query_in(context, arguments));
  if (!context.open_index)
    return Error(Code::kUnsupported, "there is no search here", "Call context_tree to look around.");
  ContextIndex* index = WARREN_TRY(context.open_index());
  auto report = [&](const IndexProgress& progress) {
    if (!context.progress) return;
    context.progress({.done = static_cast<double>(progress.done),
                      .total = static_cast<double>(progress.total),
                      .message = "reading what changed"});
  };
  // Apart from the search, which cannot be stopped: what was read so far is kept for the next one.
  WARREN_TRY(index->catch_up(report, [&] { return is_cancelled(context); }));
  if (is_cancelled(context)) return cancelled_error();
  SearchAnswer found = WARREN_TRY(index->search(query));
  WARREN_TRY(context.view.record("search", query.below, Ok{}));
  WARREN_TRY(record_hits(context, found.hits));
  ToolAnswer answer;
  Json results = Json::array();
  for (const SearchHit& hit : found.hits) {
    results.push_back(hit_of(hit));
    answer.text += fmt::format("{}:{}-{}\n{}\n", shown_ref(hit.path), hit.first_line, hit.last_line, hit.snippet);
  }
  std::string hint = std::move(found.hint);
  if (found.hits.empty()) {
    hint += fmt::format("{}Nothing {}was found. Try other words, or {} to see what there is.", hint.empty() ? "" : ". ",
                        query.offset > 0 ? "more " : "", next_call("context_tree", Json::object()));
  }
  if (!hint.empty()) answer.text += fmt::format("({})\n", hint);
  Json next;
  if (found.has_more) {
    next = query.offset + found.hits.size();
    answer.text += fmt::format("(more results: offset {})\n", query.offset + found.hits.size());
  }
  answer.structured = {{"results", std::move(results)}, {"next_offset", std::move(next)}, {"hint", std::move(hint)}};
  return answer;
}

ToolAnswer call_search(ToolContext& context, const Json& arguments) {
  return answer_of(search_items(context, arguments));
}

constexpr std::string_view kSearchDescription =
    "Finds places in items by words and by meaning; for lines of other files use grep. Returns snippets, best first, "
    "with "
    "line numbers for context_read. Example: "
    "{\"query\": \"how is "
    "the cache invalidated\", \"drive\": \"disk\"}.";

}  // namespace

const Tool& search_tool() {
  static const Tool tool{.name = "search",
                         .title = "Search items",
                         .group = "context",
                         .description = kSearchDescription,
                         .hints = {.is_read_only = true, .is_idempotent = true},
                         .input_schema = search_input,
                         .output_schema = search_output,
                         .call = call_search};
  return tool;
}

const Tool& context_search_tool() {
  static const Tool tool = [] {
    Tool named = search_tool();
    named.name = "context_search";
    named.alias_of = "search";
    return named;
  }();
  return tool;
}

}  // namespace warren
