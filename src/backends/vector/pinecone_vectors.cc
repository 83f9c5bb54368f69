#include "backends/vector/pinecone_vectors.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "base/percent.h"

namespace warren {
namespace {

constexpr std::size_t kPineconeBatch = 100;
constexpr std::size_t kPineconePage = 100;
constexpr std::size_t kPineconeIdBytes = 512;
constexpr std::string_view kPineconeVersion = "2025-04";
constexpr std::string_view kTextMember = "warren_text";

Status check_pinecone_id(std::string_view id) {
  WARREN_TRY(check_blob_key(id));
  bool is_ascii = std::all_of(id.begin(), id.end(), [](char c) { return c > 0 && c < 127; });
  if (!is_ascii || id.size() > kPineconeIdBytes) {
    return Error(Code::kInvalid,
                 fmt::format("{} cannot be an id in Pinecone: at most {} bytes of ASCII", quote(id), kPineconeIdBytes));
  }
  return Ok{};
}

VectorItem item_of(std::string id, const Json& metadata) {
  VectorItem item{.id = std::move(id), .embedding = {}, .text = {}, .metadata = whole_metadata(metadata)};
  if (metadata.is_object() && metadata.contains(kTextMember) && metadata[kTextMember].is_string()) {
    item.text = metadata[kTextMember].get<std::string>();
  }
  return item;
}

}  // namespace

Result<std::unique_ptr<VectorIndex>> PineconeVectors::open(const Url& url, std::optional<std::string> password,
                                                           std::chrono::milliseconds timeout) {
  WARREN_TRY(check_url_options(url, {"tls"}));
  std::string base =
      WARREN_TRY(http_base(url, url.find("tls") != nullptr && *url.find("tls") == "no" ? 80 : 443, Tls::kYes));
  if (url.path.find('/', 1) != std::string::npos) {
    return Error(Code::kInvalid, "the address has more than a namespace after its host",
                 "write it as pinecone://INDEX-HOST/NAMESPACE");
  }
  if (!password) password = url.password;
  if (!password || password->empty()) {
    return Error(Code::kInvalid, "the address lacks the API key",
                 "write it as pinecone://:API-KEY@INDEX-HOST/NAMESPACE");
  }
  std::string space =
      url.path.empty() ? std::string() : WARREN_TRY(decode_percent(std::string_view(url.path).substr(1)));
  auto service = WARREN_TRY(JsonService::open(
      std::move(base), {{"Api-Key", *password}, {"X-Pinecone-Api-Version", std::string(kPineconeVersion)}}, timeout));
  return std::unique_ptr<VectorIndex>(new PineconeVectors(without_secrets(url), std::move(service), std::move(space)));
}

PineconeVectors::PineconeVectors(std::string name, std::unique_ptr<JsonService> service, std::string space)
    : name_(std::move(name)), service_(std::move(service)), space_(std::move(space)) {}

Result<Json> PineconeVectors::get_json(const std::string& path) {
  return service_->get(path).within([&] { return name_; });
}

Result<Json> PineconeVectors::post(const std::string& path, const Json& body) {
  return service_->post(path, body).within([&] { return name_; });
}

Result<std::size_t> PineconeVectors::dimension() {
  Json stats = WARREN_TRY(post("/describe_index_stats", Json::object()));
  std::string metric = text_at(stats, "/metric");
  if (!metric.empty() && metric != "cosine") {
    return Error(Code::kUnsupported, fmt::format("{}: the index has the metric {}, not cosine", name_, quote(metric)));
  }
  Json dimension = member_at(stats, "/dimension");
  return dimension.is_number_unsigned() ? dimension.get<std::size_t>() : 0;
}

Status PineconeVectors::upsert(std::span<const VectorItem> items) {
  std::size_t expected = WARREN_TRY(dimension());
  WARREN_TRY(check_items(items, expected));
  for (const VectorItem& item : items) WARREN_TRY(check_pinecone_id(item.id));
  std::map<std::string, const VectorItem*> by_id;  // the last of the same id counts
  for (const VectorItem& item : items) by_id[item.id] = &item;
  Json vectors = Json::array();
  std::size_t left = by_id.size();
  for (const auto& [id, item] : by_id) {
    Json metadata = flat_metadata(item->metadata);
    metadata[std::string(kTextMember)] = item->text;
    vectors.push_back({{"id", id}, {"values", embedding_json(item->embedding)}, {"metadata", std::move(metadata)}});
    if (--left > 0 && vectors.size() < kPineconeBatch) continue;
    WARREN_TRY(post("/vectors/upsert", {{"vectors", std::move(vectors)}, {"namespace", space_}}));
    vectors = Json::array();
  }
  return Ok{};
}

Result<std::vector<VectorMatch>> PineconeVectors::query(const VectorQuery& query) {
  std::size_t expected = WARREN_TRY(dimension());
  WARREN_TRY(check_query(query, expected));
  Json body{{"namespace", space_},
            {"vector", embedding_json(query.embedding)},
            {"topK", query.top_k},
            {"includeMetadata", true},
            {"includeValues", false}};
  if (Json filter = mongo_filter(query.filter); !filter.is_null()) body["filter"] = std::move(filter);
  Json answer = WARREN_TRY(post("/query", body));
  std::vector<VectorMatch> found;
  for (const Json& match : list_at(answer, "/matches")) {
    std::string id = text_at(match, "/id");
    Json score = member_at(match, "/score");
    if (id.empty() || !score.is_number()) {
      return Error(Code::kUnavailable, fmt::format("{}: the service's answer is not that of a query", name_));
    }
    found.push_back({.item = item_of(std::move(id), member_at(match, "/metadata")), .score = score.get<double>()});
  }
  return found;
}

Result<std::optional<VectorItem>> PineconeVectors::get(std::string_view id) {
  WARREN_TRY(check_pinecone_id(id));
  Json answer = WARREN_TRY(
      get_json(fmt::format("/vectors/fetch?ids={}&namespace={}", encode_percent(id), encode_percent(space_))));
  Json vectors = member_at(answer, "/vectors");
  auto found = vectors.find(std::string(id));
  if (found == vectors.end()) return std::optional<VectorItem>();
  VectorItem item = item_of(std::string(id), member_at(*found, "/metadata"));
  item.embedding = WARREN_TRY(numbers_of(member_at(*found, "/values")).within(name_));
  return std::optional(std::move(item));
}

Result<bool> PineconeVectors::remove(std::string_view id) {
  if (!WARREN_TRY(get(id))) return false;
  WARREN_TRY(post("/vectors/delete", {{"ids", {std::string(id)}}, {"namespace", space_}}));
  return true;
}

Result<std::uint64_t> PineconeVectors::count() {
  Json stats = WARREN_TRY(post("/describe_index_stats", Json::object()));
  Json spaces = member_at(stats, "/namespaces");
  if (!spaces.is_object()) {
    return Error(Code::kUnavailable, fmt::format("{}: the service's answer has no counts", name_));
  }
  auto found = spaces.find(space_.empty() ? "__default__" : space_);
  if (found == spaces.end()) found = spaces.find(space_);
  if (found == spaces.end()) return std::uint64_t{0};
  Json count = member_at(*found, "/vectorCount");
  return count.is_number_unsigned() ? count.get<std::uint64_t>() : 0;
}

Result<VectorPage> PineconeVectors::list(const VectorListOptions& options) {
  std::vector<std::string> ids;
  std::string token;
  std::size_t wanted = std::max<std::size_t>(options.limit, 1) + 1;
  for (;;) {
    std::string path = fmt::format("/vectors/list?namespace={}&limit={}", encode_percent(space_), kPineconePage);
    if (!options.prefix.empty()) path += "&prefix=" + encode_percent(options.prefix);
    if (!token.empty()) path += "&paginationToken=" + encode_percent(token);
    Json answer = WARREN_TRY(get_json(path));
    for (const Json& vector : list_at(answer, "/vectors")) {
      std::string id = text_at(vector, "/id");
      if (id > options.after) ids.push_back(std::move(id));
    }
    token = text_at(answer, "/pagination/next");
    // Ids come in their order, so this is a page; one more says that there is another.
    if (token.empty() || ids.size() >= wanted) return page_of(std::move(ids), options);
  }
}

}  // namespace warren
