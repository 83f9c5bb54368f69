#include <fmt/format.h>

#include "agent/semantic/semantic_index.h"
#include "agent/semantic/semantic_text.h"
#include "backends/vector/vector_item.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/vfs/embedding.h"
#include "cli/vfs/hosted.h"
#include "cli/vfs/view.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

constexpr std::size_t kEmbeddingBytes = std::size_t{16} << 20;

// A JSON array of numbers, or an item or other object that has one as its member "embedding".
Result<std::vector<float>> read_query_embedding(Context& context, const std::string& file) {
  std::string text = file == "-" ? WARREN_TRY(read_input(context, kEmbeddingBytes))
                                 : WARREN_TRY(read_host_file(file, kEmbeddingBytes).within("--embedding"));
                                 Json value = WARREN_TRY(parse_json(text).within("--embedding"));
                                 if (value.is_object() && value.contains("embedding")) value = Json(value["embedding"]);
                                 return parse_embedding(value).within("--embedding");
}

Result<Exit> show_check(Context& context, const Arguments& args, const SemanticCheck& checked) {
  if (args.has("json")) {
    Json problems = Json::array();
    for (const auto& problem : checked.problems) {
      problems.push_back({{"path", problem.path}, {"problem", problem.message}});
    }
    context.out.json({{"indexed", checked.indexed},
                      {"dimension", checked.dimension == 0 ? Json() : Json(checked.dimension)},
                      {"not_indexed", problems}});
  } else {
    context.out.print("{} indexed", checked.indexed);
    if (checked.dimension != 0) context.out.print(", embeddings of {} numbers", checked.dimension);
    context.out.print("\n");
    for (const auto& problem : checked.problems) {
      context.out.print("not indexed: {}: {}\n", context.out.name(problem.path), problem.message);
    }
  }
  return checked.problems.empty() ? Exit::kOk : Exit::kFailed;
}

void show_matches(Context& context, const Arguments& args, const std::vector<VectorMatch>& found) {
  Json list = Json::array();
  for (const VectorMatch& match : found) {
    if (args.has("json")) {
      list.push_back({{"path", match.item.id},
                      {"score", match.score},
                      {"text", match.item.text},
                      {"metadata", match.item.metadata}});
      continue;
    }
    context.out.print("{:.4f}  {}\n", match.score, context.out.name(match.item.id));
    if (!match.item.text.empty()) context.out.print("        {}\n", context.out.name(match.item.text));
  }
  if (args.has("json")) context.out.json(list);
}

Result<Exit> run_vfs_query(Context& context, const Arguments& args) {
  const int ways = static_cast<int>(args.has("check")) + static_cast<int>(args.has("embedding")) +
                   static_cast<int>(args.has("text"));
  if (ways != 1) return refuse(context, "give one of --text TEXT, --embedding FILE and --check");
  VectorQuery query;
  std::unique_ptr<Embedder> embedder;  // for --text
  Json filter_json;
  if (std::optional<std::string> filter = args.find("filter")) {
    filter_json = WARREN_TRY(parse_json(*filter).within("--filter"));
  }
  if (std::optional<std::string> file = args.find("embedding")) {
    query.embedding = WARREN_TRY(read_query_embedding(context, *file));
  }
  if (std::optional<std::string> text = args.find("text")) {
    embedder = WARREN_TRY(open_user_embedder(context));
    query.embedding = WARREN_TRY(embed_question(*embedder, *text, filter_json).within("--text"));
  }
  if (!filter_json.is_null()) query.filter = WARREN_TRY(parse_vector_filter(filter_json));
  query.top_k = static_cast<std::size_t>(args.integer("top-k"));
  if (is_hosted(args)) {
    if (args.has("check")) return refuse(context, "'--check' is not for a host");
    auto client = WARREN_TRY(connect_host(args));
    std::vector<VectorMatch> found =
        WARREN_TRY(client->query(args.get("PATH"), query.embedding, query.top_k, filter_json));
    show_matches(context, args, found);
    return Exit::kOk;
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args, "query"));
  auto may_read = [&](const std::string& at, OtherNames names) { return view.fs->may_read(at, names); };
  if (args.has("check")) {
    SemanticCheck checked = WARREN_TRY(view.names->check_semantic(path, may_read));
    return show_check(context, args, checked);
  }
  Result<std::vector<VectorMatch>> found = embedder == nullptr
                                               ? view.names->query(path, query, may_read)
                                               : view.names->query_text(path, query, may_read, *embedder);
  WARREN_TRY(view.fs->record("query", path, found.ok() ? Status(Ok{}) : Status(found.error())));
  WARREN_TRY(view.fs->check_recorded());
  std::vector<VectorMatch> matches = WARREN_TRY(std::move(found));
  show_matches(context, args, matches);
  return Exit::kOk;
}

}  // namespace

Command make_vfs_query() {
  Command query{
      .name = "query",
      .summary = "Find items of semantic memory by their meaning",
      .details =
          "An item is a file below /mem/semantic whose name ends in .json: {\"text\": …, \"embedding\": [numbers], "
          "\"metadata\": {…}}. The result is exact: the highest cosines of all items. A filter is a JSON object of "
          "metadata members, all of which must match: {\"topic\": \"birds\", \"year\": {\"$gte\": 2020}}, with $eq, "
          "$ne, $gt, $gte, $lt, $lte, $in and $nin. Only what may be read is found. Where a vector index is mounted, "
          "that "
          "index is asked. A query by text compares only items whose metadata name the embedder's model in "
          "'embedding_model', as those that `write` embedded do.",
      .positionals = {{.name = "PATH",
                       .help = "/mem/semantic or a mounted vector index, or a directory or file in it",
                       .times = Times::kOptional,
                       .fallback = kSemanticMemory}},
      .options = {{.name = "embedding",
                   .value = "FILE",
                   .help = "what to look for: a JSON list of numbers, or an item; `-`: from standard input",
                   .suggest = Suggest::kHostFiles},
                  {.name = "text",
                   .value = "TEXT",
                   .help = "what to look for, in words; the user's embedder makes the embedding"},
                  {.name = "top-k",
                   .letter = 'k',
                   .value = "N",
                   .help = "how many",
                   .kind = ValueKind::kCount,
                   .fallback = "10"},
                  {.name = "filter", .value = "JSON", .help = "only items whose metadata match"},
                  {.name = "check", .help = "list the files that are not indexed, and why"},
                  json_option(),
                  as_agent_option()},
      .subcommands = {},
      .handler = run_vfs_query};
  for (Option& one : mount_options()) query.options.push_back(std::move(one));
  for (Option& one : hosted_options()) query.options.push_back(std::move(one));
  return query;
}

}  // namespace warren::cli
