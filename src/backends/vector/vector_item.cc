#include "backends/vector/vector_item.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "base/path.h"

namespace warren {

Status check_embedding(std::span<const float> embedding) {
  if (embedding.empty()) return Error(Code::kInvalid, "the embedding has no numbers");
  if (embedding.size() > kVectorDimensionMax) {
    return Error(Code::kInvalid, fmt::format("the embedding has {} numbers; at most {} are allowed", embedding.size(),
                                             kVectorDimensionMax));
  }
  double sum = 0;
  for (std::size_t i = 0; i < embedding.size(); ++i) {
    if (!std::isfinite(embedding[i])) {
      return Error(Code::kInvalid, fmt::format("number {} of the embedding is not finite", i + 1));
    }
    sum += static_cast<double>(embedding[i]) * static_cast<double>(embedding[i]);
  }
  if (sum == 0) return Error(Code::kInvalid, "the embedding is all zeros, so it has no direction to compare");
  return Ok{};
}

Status check_dimension(std::size_t dimension, std::size_t expected) {
  if (dimension == expected) return Ok{};
  return Error(Code::kInvalid,
               fmt::format("the embedding has {} numbers, but those of this index have {}", dimension, expected),
               "use the model that made the other embeddings");
}

Status check_item(const VectorItem& item, std::size_t dimension) {
  auto in_item = [&] { return fmt::format("item {}", quote(item.id)); };
  WARREN_TRY(check_blob_key(item.id));
  WARREN_TRY(check_embedding(item.embedding).within(in_item));
  if (dimension != 0) WARREN_TRY(check_dimension(item.embedding.size(), dimension).within(in_item));
  if (!item.metadata.is_object()) return Error(Code::kInvalid, "the metadata is not a JSON object").within(in_item());
  return Ok{};
}

Result<std::size_t> check_items(std::span<const VectorItem> items, std::size_t dimension) {
  for (const VectorItem& item : items) {
    WARREN_TRY(check_item(item, dimension));
    dimension = item.embedding.size();
  }
  return dimension;
}

Status check_query(const VectorQuery& query, std::size_t dimension) {
  WARREN_TRY(check_embedding(query.embedding).within("query"));
  if (dimension != 0) WARREN_TRY(check_dimension(query.embedding.size(), dimension).within("query"));
  if (query.top_k == 0 || query.top_k > kVectorTopMax) {
    return Error(Code::kInvalid,
                 fmt::format("query: {} results are asked for; it must be 1 to {}", query.top_k, kVectorTopMax));
  }
  return Ok{};
}

Result<std::vector<float>> parse_embedding(const Json& value) {
  if (!value.is_array()) return Error(Code::kInvalid, "the embedding is not a list of numbers");
  std::vector<float> embedding;
  embedding.reserve(value.size());
  for (const Json& number : value) {
    if (!number.is_number()) {
      return Error(Code::kInvalid, fmt::format("element {} of the embedding is not a number", embedding.size() + 1));
    }
    embedding.push_back(static_cast<float>(number.get<double>()));
  }
  WARREN_TRY(check_embedding(embedding));
  return embedding;
}

Json embedding_json(std::span<const float> embedding) {
  Json list = Json::array();
  for (float number : embedding) {
    // The shortest decimals that give this float again: as a double they look like 0.1 instead of 0.10000000149.
    std::array<char, 32> digits{};
    char* end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    double value = 0;
    std::from_chars(digits.data(), end, value);
    list.push_back(value);
  }
  return list;
}

Result<VectorItem> parse_vector_item(std::string_view text, Members members) {
  Json value = WARREN_TRY(parse_json(text));
  if (!value.is_object()) {
    return Error(Code::kInvalid, "not an item: it must be {\"text\": …, \"embedding\": [numbers], \"metadata\": {…}}");
  }
  VectorItem item;
  auto embedding = value.find("embedding");
  if (embedding == value.end()) return Error(Code::kInvalid, "not an item: it has no member 'embedding'");
  item.embedding = WARREN_TRY(parse_embedding(*embedding));
  if (auto found = value.find("text"); found != value.end()) {
    if (!found->is_string()) return Error(Code::kInvalid, "the member 'text' is not a string");
    item.text = found->get<std::string>();
  }
  if (auto found = value.find("metadata"); found != value.end()) {
    if (!found->is_object()) return Error(Code::kInvalid, "the member 'metadata' is not an object");
    item.metadata = std::move(*found);
  }
  if (members == Members::kKnown) {
    for (const auto& [name, unused] : value.items()) {
      if (name == "embedding" || name == "text" || name == "metadata") continue;
      return Error(Code::kInvalid, fmt::format("an item has no member {}", quote(name)), "put it into 'metadata'");
    }
  }
  return item;
}

std::string format_vector_item(const VectorItem& item) {
  return dump_json(
      Json{{"text", item.text}, {"embedding", embedding_json(item.embedding)}, {"metadata", item.metadata}});
}

}  // namespace warren
