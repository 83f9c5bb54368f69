// SemanticIndex: embeddings of files that have only a text.
#include <fmt/format.h>

#include "agent/semantic/semantic_index.h"
#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "embed/item_embedding.h"

namespace warren {
namespace {

constexpr std::size_t kEmbedBatch = 32;
constexpr std::size_t kEmbedPerCall = 512;

}  // namespace

// In three steps for each batch, so that nothing is locked while the embedder works: find, embed, take what is still
// the same.
Result<std::size_t> SemanticIndex::embed_missing(Embedder& embedder) {
  std::size_t left = 0;
  for (std::size_t done = 0; done < kEmbedPerCall; done += kEmbedBatch) {
    std::vector<Missing> missing;
    {
      auto unit = WARREN_TRY(fs_.begin(UnitAccess::kRead));
      WARREN_TRY(refresh());
      missing = WARREN_TRY(find_missing(embedder.model(), left));
    }
    if (left == 0) return 0;
    std::vector<std::string_view> texts;
    for (const Missing& one : missing) texts.emplace_back(one.row.text);
    std::vector<std::vector<float>> vectors =
        WARREN_TRY(embedder.embed(texts, TextRole::kPassage).within("embed items"));
    if (vectors.size() != texts.size()) return Error(Code::kInternal, "another number of embeddings than texts");
    {
      auto unit = WARREN_TRY(fs_.begin(UnitAccess::kRead));
      for (std::size_t i = 0; i < missing.size(); ++i) {
        WARREN_TRY(take_embedding(missing[i], embedder.model(), std::move(vectors[i])));
      }
    }
    store_fresh();
    left -= missing.size();
  }
  return left;
}

// The first of them with their rows; `left` is how many there are in all.
Result<std::vector<SemanticIndex::Missing>> SemanticIndex::find_missing(const std::string& model, std::size_t& left) {
  std::vector<Missing> missing;
  left = 0;
  for (const auto& [path, file] : files_) {
    const bool is_of_another = file.dimension != 0 && !file.problem.empty() && file.problem != model;
    if (!file.has_text_only && !is_of_another) continue;
    ++left;
    if (missing.size() == kEmbedBatch) continue;
    Result<VectorRow> row = row_of(file);
    if (!row.ok() && row.error().code() == Code::kCorrupt) continue;  // the next refresh reads it again
    VectorRow found = WARREN_TRY(std::move(row));
    missing.push_back({.path = path, .key = file.key, .row = std::move(found)});
  }
  return missing;
}

// A file that was read again in between is left for the next time. One that changed without that is read again by the
// next refresh.
Status SemanticIndex::take_embedding(Missing& missing, const std::string& model, std::vector<float> embedding) {
  auto known = files_.find(missing.path);
  if (known == files_.end() || known->second.key != missing.key) return Ok{};
  WARREN_TRY(check_embedding(embedding).within(quote(missing.path)));
  VectorRow row = std::move(missing.row);
  Result<Json> metadata = parse_json(row.metadata);
  if (!metadata.ok() || !metadata->is_object()) metadata = Json(Json::object());  // a row is input
  (*metadata)[std::string(kEmbeddingModel)] = model;
  row.metadata = dump_json(*metadata);
  row.stamp = known->second.stamp;
  row.embedding = std::move(embedding);
  row.problem = model;
  const Inode inode = known->second.inode;
  drop(missing.path);
  put_row(missing.path, inode, row);
  keep_fresh(inode, row, Room::kAlways);  // it cannot be read from the file again
  return Ok{};
}

}  // namespace warren
