// A namespace of a Pinecone index as a vector index, over its REST interface.
//
// The index must have the cosine metric. Pinecone is eventually consistent: what was written may be missing from
// queries for some seconds. Ids are at most 512 bytes of ASCII, and metadata with the text at most 40 KB.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "backends/vector/vector_index.h"
#include "backends/vector/vector_service.h"

namespace warren {

class PineconeVectors final : public VectorIndex {
 public:
  // pinecone://:API-KEY@INDEX-HOST[/NAMESPACE][?tls=no]; the host is the index's own, as its console shows it.
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
  PineconeVectors(std::string name, std::unique_ptr<JsonService> service, std::string space);
  Result<Json> get_json(const std::string& path);
  Result<Json> post(const std::string& path, const Json& body);
  Result<std::size_t> dimension();  // fixed when the index is made

  std::string name_;
  std::unique_ptr<JsonService> service_;
  std::string space_;
};

}  // namespace warren
