#include "backends/vector/chroma_vectors.h"

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "base/percent.h"

namespace warren {
namespace {

constexpr std::size_t kChromaBatch = 250;
constexpr std::size_t kChromaPage = 1000;
constexpr std::uint16_t kChromaPort = 8000;

// Element `at` of the list under `name`; null if there is none.
Json element(const Json& answer, std::string_view name, std::size_t at) {
  auto found = answer.find(name);
  if (found == answer.end() || !found->is_array() || at >= found->size()) return Json();
  return Json((*found)[at]);
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

}  // namespace

Result<std::unique_ptr<VectorIndex>> ChromaVectors::open(const Url& url, std::optional<std::string> password,
                                                         std::chrono::milliseconds timeout) {
  WARREN_TRY(check_url_options(url, {"tenant", "database", "tls"}));
  std::string base = WARREN_TRY(http_base(url, kChromaPort, Tls::kNo));
  if (url.path.size() < 2 || url.path.find('/', 1) != std::string::npos) {
    return Error(Code::kInvalid, "the address lacks the collection", "write it as chroma://host:8000/collection");
  }
  std::string collection = WARREN_TRY(decode_percent(std::string_view(url.path).substr(1)));
  auto member = [&](std::string_view name, std::string_view fallback) {
    const std::string* given = url.find(name);
    return encode_percent(given != nullptr ? *given : fallback);
  };
  HttpHeaders headers;
  if (!password) password = url.password;
  if (password) headers.emplace_back("x-chroma-token", *password);
  auto service = WARREN_TRY(JsonService::open(std::move(base), std::move(headers), timeout));
  return std::unique_ptr<VectorIndex>(
      new ChromaVectors(without_secrets(url), std::move(service),
                        fmt::format("/api/v2/tenants/{}/databases/{}", member("tenant", "default_tenant"),
                                    member("database", "default_database")),
                        std::move(collection)));
}

ChromaVectors::ChromaVectors(std::string name, std::unique_ptr<JsonService> service, std::string database,
                             std::string collection)
    : name_(std::move(name)),
      service_(std::move(service)),
      database_(std::move(database)),
      collection_(std::move(collection)) {}

Result<std::string> ChromaVectors::collection_path() {
  {
    std::lock_guard lock(mutex_);
    if (!path_.empty()) return path_;
  }
  Json made = WARREN_TRY(
      service_
          ->post(database_ + "/collections",
                 {{"name", collection_}, {"get_or_create", true}, {"configuration", {{"hnsw", {{"space", "cosine"}}}}}})
          .within([&] { return fmt::format("open {}", name_); }));
  std::string id = text_at(made, "/id");
  if (id.empty()) return Error(Code::kUnavailable, fmt::format("open {}: the answer has no collection id", name_));
  std::string space = text_at(made, "/configuration_json/hnsw/space");
  if (!space.empty() && space != "cosine") {
    return Error(Code::kUnsupported,
                 fmt::format("{}: the collection has {} distances, not cosine", name_, quote(space)),
                 "use another collection; a new one is made with cosine distances");
  }
  std::lock_guard lock(mutex_);
  path_ = fmt::format("{}/collections/{}", database_, encode_percent(id));
  return path_;
}

// A collection that was removed meanwhile is made again: its id has changed.
Result<Json> ChromaVectors::post(const std::string& what, const Json& body) {
  for (int attempt = 0;; ++attempt) {
    std::string path = WARREN_TRY(collection_path());
    Result<Json> answer = body.is_null() ? service_->get(path + what) : service_->post(path + what, body);
    bool is_gone = !answer.ok() && answer.error().code() == Code::kNotFound && attempt == 0;
    if (!is_gone) return std::move(answer).within([&] { return name_; });
    std::lock_guard lock(mutex_);
    path_.clear();
  }
}

Status ChromaVectors::upsert(std::span<const VectorItem> items) {
  WARREN_TRY(check_items(items, 0));
  if (items.size() > kChromaBatch) {
    // What the service would refuse in a later batch must not leave the earlier ones behind.
    Json page = WARREN_TRY(post("/get", {{"limit", 1}, {"include", {"embeddings"}}}));
    Json known = element(page, "embeddings", 0);
    if (known.is_array()) WARREN_TRY(check_items(items, known.size()));
  }
  for (std::size_t begin = 0; begin < items.size(); begin += kChromaBatch) {
    WARREN_TRY(upsert_some(items.subspan(begin, std::min(kChromaBatch, items.size() - begin))));
  }
  return Ok{};
}

// Chroma keeps the members of old metadata that new ones lack, unless they are set to null.
Status ChromaVectors::upsert_some(std::span<const VectorItem> items) {
  std::map<std::string, const VectorItem*> by_id;  // one call may not name an id twice; the last counts
  for (const VectorItem& item : items) by_id[item.id] = &item;
  Json ids = Json::array();
  for (const auto& [id, item] : by_id) ids.push_back(id);
  Json old = WARREN_TRY(post("/get", {{"ids", ids}, {"include", {"metadatas"}}}));
  std::map<std::string, Json> old_metadata;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Json id = element(old, "ids", i);
    if (id.is_string()) old_metadata[id.get<std::string>()] = element(old, "metadatas", i);
  }
  Json body{{"ids", ids}, {"embeddings", Json::array()}, {"documents", Json::array()}, {"metadatas", Json::array()}};
  for (const auto& [id, item] : by_id) {
    Json metadata = flat_metadata(item->metadata);
    for (const auto& [key, value] : old_metadata[id].items()) {
      if (!metadata.contains(key)) metadata[key] = nullptr;
    }
    body["embeddings"].push_back(embedding_json(item->embedding));
    body["documents"].push_back(item->text);
    body["metadatas"].push_back(std::move(metadata));
  }
  WARREN_TRY(post("/upsert", body));
  return Ok{};
}

Result<std::vector<VectorMatch>> ChromaVectors::query(const VectorQuery& query) {
  WARREN_TRY(check_query(query, 0));
  Json body{{"query_embeddings", Json::array({embedding_json(query.embedding)})},
            {"n_results", query.top_k},
            {"include", {"documents", "metadatas", "distances"}}};
  if (Json where = mongo_filter(query.filter); !where.is_null()) body["where"] = std::move(where);
  Json answer = WARREN_TRY(post("/query", body));
  Json ids = element(answer, "ids", 0);
  Json lists{{"distances", element(answer, "distances", 0)},
             {"documents", element(answer, "documents", 0)},
             {"metadatas", element(answer, "metadatas", 0)}};
  std::vector<VectorMatch> found;
  for (std::size_t i = 0; ids.is_array() && i < ids.size(); ++i) {
    Json distance = element(lists, "distances", i);
    if (!ids[i].is_string() || !distance.is_number()) {
      return Error(Code::kUnavailable, fmt::format("{}: the service's answer is not that of a query", name_));
    }
    found.push_back({.item = {.id = ids[i].get<std::string>(),
                              .embedding = {},
                              .text = text_of(element(lists, "documents", i)),
                              .metadata = whole_metadata(element(lists, "metadatas", i))},
                     .score = 1 - distance.get<double>()});
  }
  return found;
}

Result<std::optional<VectorItem>> ChromaVectors::get(std::string_view id) {
  WARREN_TRY(check_blob_key(id));
  Json answer =
      WARREN_TRY(post("/get", {{"ids", {std::string(id)}}, {"include", {"documents", "metadatas", "embeddings"}}}));
  if (element(answer, "ids", 0).is_null()) return std::optional<VectorItem>();
  VectorItem item{.id = std::string(id),
                  .embedding = {},
                  .text = text_of(element(answer, "documents", 0)),
                  .metadata = whole_metadata(element(answer, "metadatas", 0))};
  item.embedding = WARREN_TRY(numbers_of(element(answer, "embeddings", 0)).within(name_));
  return std::optional(std::move(item));
}

Result<bool> ChromaVectors::remove(std::string_view id) {
  WARREN_TRY(check_blob_key(id));
  Json ids = Json::array({std::string(id)});
  Json there = WARREN_TRY(post("/get", {{"ids", ids}, {"include", Json::array()}}));
  if (element(there, "ids", 0).is_null()) return false;
  WARREN_TRY(post("/delete", {{"ids", ids}}));
  return true;
}

Result<std::uint64_t> ChromaVectors::count() {
  Json answer = WARREN_TRY(post("/count", Json()));
  if (!answer.is_number_unsigned())
    return Error(Code::kUnavailable, fmt::format("{}: the count is not a number", name_));
  return answer.get<std::uint64_t>();
}

Result<VectorPage> ChromaVectors::list(const VectorListOptions& options) {
  std::vector<std::string> ids;
  for (std::size_t offset = 0;; offset += kChromaPage) {
    Json answer = WARREN_TRY(post("/get", {{"limit", kChromaPage}, {"offset", offset}, {"include", Json::array()}}));
    Json page = list_at(answer, "/ids");
    for (const Json& id : page) {
      if (id.is_string()) ids.push_back(id.get<std::string>());
    }
    if (page.size() < kChromaPage) return page_of(std::move(ids), options);
  }
}

}  // namespace warren
