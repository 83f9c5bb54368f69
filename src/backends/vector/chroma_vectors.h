// A collection of a Chroma server as a vector index, over its REST interface (v2).
//
// Chroma's own index is approximate (HNSW), so a query can miss items. It knows no order of ids: a listing reads all of
// them.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backends/vector/vector_index.h"
#include "backends/vector/vector_service.h"

namespace warren {

class ChromaVectors final : public VectorIndex {
 public:
  // chroma://[:TOKEN@]HOST[:8000]/COLLECTION[?tenant=…&database=…&tls=yes]. The collection is made when it is first
  // used, with cosine distances; an existing one must have those.
  static Result<std::unique_ptr<VectorIndex>> open(const Url& url, std::optional<std::string> password,
                                                   std::chrono::milliseconds timeout);

  std::string name() const override { return name_; }
  Status upsert(std::span<const VectorItem> items) override;
  Result<std::vector<VectorMatch>> query(const VectorQuery& query) override;
  Result<std::optional<VectorItem>> get(std::string_view id) override;
  Result<bool> remove(std::string_view id) override;
  Result<std::uint64_t> count() override;
  Result<VectorPage> list(const VectorListOptions& options) override;

 private:
  ChromaVectors(std::string name, std::unique_ptr<JsonService> service, std::string database, std::string collection);
  Result<std::string> collection_path();
  Result<Json> post(const std::string& what, const Json& body);
  Status upsert_some(std::span<const VectorItem> items);

  std::string name_;
  std::unique_ptr<JsonService> service_;
  std::string database_;  // "/api/v2/tenants/…/databases/…"
  std::string collection_;
  std::mutex mutex_;
  std::string path_;  // of the collection, by its id; empty until it is known
};

}  // namespace warren
