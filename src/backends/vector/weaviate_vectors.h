// A class of a Weaviate server as a vector index, over its REST and GraphQL interfaces.
//
// Weaviate's own index is approximate (HNSW), so a query can miss items. It knows no order of ids: a listing reads all
// of them.
//
// An object's UUID follows from the item's id, which is in the property warren_id. Each member of the metadata that can
// be filtered has a property of its own, named after it and its type, because a property has one type for all objects
// of a class. Objects that other programs put into the class are items too, with their UUIDs as ids.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "backends/vector/vector_index.h"
#include "backends/vector/vector_service.h"

namespace warren {

class WeaviateVectors final : public VectorIndex {
 public:
  // weaviate://[:API-KEY@]HOST[:8080]/CLASS[?tls=yes]; with tls the port is 443 unless given. The class is made by the
  // first upsert, with cosine distances; an existing one must have been made this way (kUnsupported).
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
  using Properties = std::set<std::string, std::less<>>;
  // Null: the server has no such class. Calls that have one keep it while another one replaces it.
  using ClassProperties = std::shared_ptr<const Properties>;

  WeaviateVectors(std::string name, std::unique_ptr<JsonService> service, std::string class_name);

  // What was last seen, if it has all of `wanted`; otherwise what the server has now.
  Result<ClassProperties> find_class(const Properties& wanted = {});
  Result<ClassProperties> load_class();
  Result<ClassProperties> make_class();
  Status add_properties(const ClassProperties& known, const Properties& wanted);

  Result<std::size_t> load_dimension();  // 0: there is no item
  // The dimension, if `check` accepts it. What was seen earlier is not enough for a refusal.
  template <class Check>
  Result<std::size_t> checked_dimension(const Check& check);

  Status upsert_some(std::span<const VectorItem* const> items);
  // The answer's "data"; unset if there is no class any more.
  Result<std::optional<Json>> ask(const std::string& query);
  // One request about an object, "GET" or "DELETE"; unset if there is no such object.
  Result<std::optional<Json>> call_object(std::string_view id, std::string_view method);

  std::string name_;
  std::unique_ptr<JsonService> service_;
  std::string class_;
  std::atomic<std::size_t> dimension_{0};  // as last seen; 0: not known
  std::mutex mutex_;
  ClassProperties properties_;  // as last seen
};

}  // namespace warren
