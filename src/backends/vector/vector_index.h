// Embeddings with text and metadata, found by similarity: what the embedded index, Chroma, Weaviate and Pinecone can
// all do.
//
// An id is a key as in backends/blob/blob_key.h. All items of an index have embeddings of the same length, its
// dimension, which the first item decides. Similarity is the cosine: 1 for the same direction, -1 for the opposite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vector/vector_filter.h"
#include "base/json.h"
#include "base/result.h"

namespace warren {

struct VectorItem {
  std::string id;
  std::vector<float> embedding;
  std::string text;
  Json metadata = Json::object();

  bool operator==(const VectorItem&) const = default;
};

struct VectorMatch {
  VectorItem item;   // without its embedding
  double score = 0;  // the cosine
};

struct VectorQuery {
  std::vector<float> embedding;
  std::size_t top_k = 10;
  VectorFilter filter;  // of the metadata; empty: every item
};

// Ids in the order of their bytes.
struct VectorPage {
  std::vector<std::string> ids;
  std::string next;  // `after` of the next page; empty after the last
};

struct VectorListOptions {
  std::string prefix;  // bytes, not components
  std::string after;   // only ids after this one
  std::size_t limit = 1000;
};

// Thread-safe. Calls return within the index's timeout (kUnavailable), also when the other side is gone, hangs or
// answers half; after that they work again without being reopened. An error never contains a password or key.
class VectorIndex {
 public:
  virtual ~VectorIndex() = default;

  virtual std::string name() const = 0;  // for people, without secrets

  // Adds items or replaces those with the same ids. All are checked first: kInvalid names the item and what is wrong
  // with it (id, not finite, all zeros, another dimension), and nothing changes. The last of two items with the same id
  // counts.
  virtual Status upsert(std::span<const VectorItem> items) = 0;
  // The most similar items that match the filter, best first. kInvalid for an embedding of another dimension; an empty
  // index has no matches for any.
  virtual Result<std::vector<VectorMatch>> query(const VectorQuery& query) = 0;
  virtual Result<std::optional<VectorItem>> get(std::string_view id) = 0;
  virtual Result<bool> remove(std::string_view id) = 0;  // whether it was there
  virtual Result<std::uint64_t> count() = 0;
  virtual Result<VectorPage> list(const VectorListOptions& options) = 0;
};

}  // namespace warren
