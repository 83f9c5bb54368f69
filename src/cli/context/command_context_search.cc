#include <chrono>

#include <fmt/format.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/context/context_commands.h"
#include "cli/context/open_index.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "drives/items.h"
#include "drives/known_drives.h"
#include "drives/uuid.h"

namespace warren::cli {
namespace {

constexpr std::chrono::milliseconds kEmbedAll = std::chrono::hours(24 * 365);

std::vector<std::string> finders_of(const SearchHit& hit) {
  std::vector<std::string> names;
  if (hit.by_text) names.emplace_back("text");
  if (hit.by_meaning) names.emplace_back("meaning");
  if (hit.by_pattern) names.emplace_back("pattern");
  return names;
}

Json hit_json(const SearchHit& hit) {
  Json json;
  set_bytes(json, "path", hit.path);
  json["first_line"] = hit.first_line;
  json["last_line"] = hit.last_line;
  json["heading"] = hit.heading;
  json["snippet_line"] = hit.snippet_line;
  json["snippet"] = hit.snippet;
  json["score"] = hit.score;
  json["found_by"] = finders_of(hit);
  return json;
}

void show_hit(Context& context, const SearchHit& hit) {
  Output& out = context.out;
  std::string lines = hit.first_line == 0 ? "" : fmt::format(":{}-{}", hit.first_line, hit.last_line);
  out.print("{}{}  {:.4f} ({})\n", out.paint(Ink::kBold, out.name(hit.path)), lines, hit.score,
            fmt::join(finders_of(hit), ", "));
  if (!hit.heading.empty()) out.print("    {}\n", out.name(hit.heading));
  std::size_t number = hit.snippet_line;
  for (std::size_t at = 0; at < hit.snippet.size(); ++number) {
    std::size_t end = std::min(hit.snippet.find('\n', at), hit.snippet.size());
    out.text(fmt::format("{:>6}: {}\n", number, hit.snippet.substr(at, end - at)));
    at = end + 1;
  }
}

Result<SearchQuery> query_of(const Arguments& args, Zone zone) {
  SearchQuery query;
  query.text = args.find("TEXT").value_or("");
  query.pattern = args.find("pattern").value_or("");
  query.below = args.get("in");
  if (auto drive = args.find("drive")) {
    Ref top = WARREN_TRY(make_ref(*drive, query.below).within("--drive"));
    query.below = namespace_path(top);
  }
  if (args.has("glob")) query.globs = args.all("glob");
  query.mime = args.find("mime").value_or("");
  if (auto since = args.find("since")) query.since = WARREN_TRY(parse_time(*since, zone));
  if (auto until = args.find("until")) query.until = WARREN_TRY(parse_time(*until, zone));
  query.limit = static_cast<std::size_t>(args.integer("limit"));
  query.offset = static_cast<std::size_t>(args.integer("offset"));
  query.per_file_max = static_cast<std::size_t>(args.integer("per-file"));
  return query;
}

Result<Exit> run_context_search(Context& context, const Arguments& args) {
  if (!args.has("TEXT") && !args.has("pattern")) return refuse(context, "give TEXT, or --pattern RE");
  SearchQuery query = WARREN_TRY(query_of(args, context.out.zone()));
  OpenIndex open = WARREN_TRY(open_index(context, args));
  SearchAnswer answer;
  {
    ProgressLine line(context, "indexing");
    answer = WARREN_TRY(open.index->search(query, [&](const IndexProgress& progress) { line.show(progress); }));
  }
  if (args.has("json")) {
    Json hits = Json::array();
    for (const SearchHit& hit : answer.hits) hits.push_back(hit_json(hit));
    context.out.json(
        {{"hits", hits}, {"waiting", answer.waiting}, {"has_more", answer.has_more}, {"hint", answer.hint}});
    return end_reading(*open.agent);
  }
  for (const SearchHit& hit : answer.hits) show_hit(context, hit);
  if (answer.hits.empty()) context.err.line("warren: nothing found");
  if (!answer.hint.empty()) context.err.line(fmt::format("warren: {}", answer.hint));
  return end_reading(*open.agent);
}

// `configured` is empty if the user wants no embedder.
void show_status(Context& context, const IndexStatus& status, const std::string& configured) {
  Output& out = context.out;
  out.print("index      {} ({})\n", out.name(status.file), out.size(status.bytes));
  out.print("files      {}, {} with text\n", status.files, status.with_text);
  out.print("chunks     {}\n", status.chunks);
  if (configured.empty()) {
    out.print("embedder   none\n");
  } else if (status.model.empty()) {
    out.print("embedder   configured: {}; not available: {}\n", out.name(configured), out.name(status.no_embedder));
    out.print("waiting    {} chunks\n", status.waiting);
  } else {
    out.print("embedder   {}\n", out.name(status.model));
    out.print("embedded   {}, {} waiting\n", status.embedded, status.waiting);
  }
  for (const IndexStatus::Problem& problem : status.problems) {
    out.print("only by name: {}: {}\n", out.name(problem.path), out.name(problem.message));
  }
  if (status.problem_count > status.problems.size()) {
    out.print("only by name: {} more files\n", status.problem_count - status.problems.size());
  }
}

Result<Exit> run_context_status(Context& context, const Arguments& args) {
  OpenIndex open = WARREN_TRY(open_index(context, args));
  IndexStatus status = WARREN_TRY(open.index->status());
  std::string configured = open.embedders->describe_configured();
  if (!args.has("json")) {
    show_status(context, status, configured);
    return Exit::kOk;
  }
  Json problems = Json::array();
  for (const IndexStatus::Problem& problem : status.problems) {
    Json one;
    set_bytes(one, "path", problem.path);
    one["problem"] = problem.message;
    problems.push_back(std::move(one));
  }
  Json json;
  set_bytes(json, "index", status.file);
  json.update({{"bytes", status.bytes},
               {"files", status.files},
               {"with_text", status.with_text},
               {"chunks", status.chunks},
               {"model", status.model.empty() ? Json() : Json(status.model)},
               {"configured", configured.empty() ? Json() : Json(configured)},
               {"not_available", status.no_embedder.empty() || configured.empty() ? Json() : Json(status.no_embedder)},
               {"embedded", status.embedded},
               {"waiting", status.waiting},
               {"only_by_name", problems},
               {"only_by_name_count", status.problem_count}});
  context.out.json(json);
  return Exit::kOk;
}

// Embeds what waits, and says what is left.
Result<Exit> embed_waiting(Context& context, const Arguments& args, ContextIndex& index) {
  std::chrono::milliseconds time = kEmbedAll;
  if (auto wait = args.find("wait")) time = WARREN_TRY(parse_duration(*wait));
  std::size_t done = 0;
  {
    ProgressLine line(context, "embedding");
    done = WARREN_TRY(index.embed_some(time, [&](const IndexProgress& progress) { line.show(progress); }));
  }
  IndexStatus status = WARREN_TRY(index.status());
  if (args.has("json")) context.out.json({{"embedded", done}, {"waiting", status.waiting}});
  else context.out.print("{} embedded, {} waiting\n", done, status.waiting);
  return Exit::kOk;
}

Result<Exit> run_context_embed(Context& context, const Arguments& args) {
  OpenIndex open = WARREN_TRY(open_index(context, args));
  return embed_waiting(context, args, *open.index);
}

Result<Exit> run_context_reembed(Context& context, const Arguments& args) {
  OpenIndex open = WARREN_TRY(open_index(context, args));
  WARREN_TRY(open.index->start_embedding_again());
  return embed_waiting(context, args, *open.index);
}

Result<Exit> run_context_rebuild(Context& context, const Arguments& args) {
  OpenIndex open = WARREN_TRY(open_index(context, args));
  {
    ProgressLine line(context, "indexing");
    WARREN_TRY(open.index->rebuild([&](const IndexProgress& progress) { line.show(progress); }));
  }
  IndexStatus status = WARREN_TRY(open.index->status());
  if (args.has("json")) context.out.json({{"files", status.files}, {"chunks", status.chunks}});
  else context.out.print("{} files, {} chunks\n", status.files, status.chunks);
  return Exit::kOk;
}

// A reference is a path below /context.
Result<std::string> path_of_item(Context& context, Agent& agent, const std::string& given) {
  if (given.starts_with('/')) return given;
  FileSystem* tree = WARREN_TRY(agent.namespace_tree());
  Items items(agent, *tree, context.clock);
  auto unit = WARREN_TRY(tree->begin(UnitAccess::kRead));
  if (looks_like_uuid(given)) {
    std::optional<Ref> found = WARREN_TRY(items.find_by_id(given));
    if (!found) return Error(Code::kNotFound, fmt::format("no item has the id {}", quote(given)));
    return namespace_path(*found);
  }
  if (looks_like_web_address(given)) {
    WebItem item = WARREN_TRY(find_web_item(given));
    Ref page = WARREN_TRY(items.find_page(item.ref, item.source));
    return namespace_path(page);
  }
  Ref ref = WARREN_TRY(parse_ref(given));
  return namespace_path(ref);
}

Result<Exit> run_context_chunks(Context& context, const Arguments& args) {
  OpenIndex open = WARREN_TRY(open_index(context, args));
  std::string path = WARREN_TRY(path_of_item(context, *open.agent, args.get("REF")));
  std::vector<ChunkInfo> chunks = WARREN_TRY(open.index->list_chunks(path));
  Output& out = context.out;
  Json list = Json::array();
  for (const ChunkInfo& chunk : chunks) {
    if (args.has("json")) {
      list.push_back({{"first_line", chunk.first_line},
                      {"last_line", chunk.last_line},
                      {"heading", chunk.heading},
                      {"text", chunk.text},
                      {"embedded", chunk.is_embedded}});
    } else {
      out.print("{}-{}  {} bytes{}{}\n", chunk.first_line, chunk.last_line, chunk.text.size(),
                chunk.is_embedded ? ", embedded" : "", chunk.heading.empty() ? "" : "  " + out.name(chunk.heading));
    }
  }
  if (args.has("json")) out.json({{"chunks", std::move(list)}});
  return end_reading(*open.agent);
}

Command make_search() {
  return {
      .name = "search",
      .summary = "Find places in the agent's files by words, by meaning and by patterns",
      .details =
          "Any of the words may occur; common words are left out. \"several words\" in double quotes occur as they "
          "are, and wor* is the beginning of a word. With an embedder, places that mean the same are found too, "
          "whatever their words. What was written through any door is found. Filters apply before the best "
          "results are chosen.",
      .positionals = {{.name = "TEXT", .help = "what to look for", .times = Times::kOptional}},
      .options = {{.name = "pattern", .letter = 'e', .value = "RE", .help = "a regular expression (RE2) to look for"},
                  {.name = "in", .value = "PATH", .help = "only at or below this path", .fallback = "/"},
                  {.name = "drive", .value = "DRIVE", .help = "only items of this drive; --in is a path on it"},
                  {.name = "glob",
                   .letter = 'g',
                   .value = "GLOB",
                   .help = "only files whose path matches, as /src/**/*.cc; may be given more than once",
                   .is_list = true},
                  {.name = "mime", .value = "TYPE", .help = "only files of this type: text/markdown, text/*"},
                  {.name = "since", .value = "TIME", .help = "only files changed since", .kind = ValueKind::kTime},
                  {.name = "until", .value = "TIME", .help = "only files changed until", .kind = ValueKind::kTime},
                  {.name = "limit",
                   .letter = 'n',
                   .value = "N",
                   .help = "at most this many results",
                   .kind = ValueKind::kCount,
                   .fallback = "10"},
                  {.name = "offset",
                   .value = "N",
                   .help = "skip this many of the best results, for the next page",
                   .kind = ValueKind::kCount,
                   .fallback = "0"},
                  {.name = "per-file",
                   .value = "N",
                   .help = "at most this many results from one file",
                   .kind = ValueKind::kCount,
                   .fallback = "3"},
                  json_option()},
      .subcommands = {},
      .handler = run_context_search};
}

}  // namespace

std::vector<Command> make_context_search() {
  return {
      make_search(),
      {.name = "status",
       .summary = "Show what is indexed and how much waits to be embedded",
       .details = "",
       .positionals = {},
       .options = {json_option()},
       .subcommands = {},
       .handler = run_context_status},
      {.name = "embed",
       .summary = "Embed everything that waits for it",
       .details = "",
       .positionals = {},
       .options = {{.name = "wait",
                    .value = "TIME",
                    .help = "stop after this time, instead of when nothing is waiting",
                    .kind = ValueKind::kDuration},
                   json_option()},
       .subcommands = {},
       .handler = run_context_embed},
      {.name = "reembed",
       .summary = "Embed everything again",
       .details = "Never needed after files or the model have changed. Until a text is embedded again, "
                  "it is found by its vector from before.",
       .positionals = {},
       .options = {{.name = "wait",
                    .value = "TIME",
                    .help = "stop after this time, and go on with later searches",
                    .kind = ValueKind::kDuration},
                   json_option()},
       .subcommands = {},
       .handler = run_context_reembed},
      {.name = "chunks",
       .summary = "Show the parts that the text of an item or file is divided into for searching",
       .details = "",
       .positionals = {{.name = "REF", .help = "DRIVE:/PATH, an id, a web address, or the absolute path of a file"}},
       .options = {json_option()},
       .subcommands = {},
       .handler = run_context_chunks},
      {.name = "rebuild",
       .summary = "Make the search index again",
       .details = "Never needed for changed files. Everything is read and embedded again.",
       .positionals = {},
       .options = {json_option()},
       .subcommands = {},
       .handler = run_context_rebuild}};
}

}  // namespace warren::cli
