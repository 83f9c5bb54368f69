// What the clients of vector services have in common: JSON over HTTP, and metadata as these services can filter them.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "backends/vector/vector_index.h"
#include "base/json.h"
#include "base/result.h"
#include "clients/http.h"
#include "clients/url.h"

namespace warren {

// Thread-safe.
class JsonService {
 public:
  // `url` is without a trailing slash. Headers may contain secrets; no error does.
  static Result<std::unique_ptr<JsonService>> open(std::string url, HttpHeaders headers,
                                                   std::chrono::milliseconds timeout);

  // The answer of a successful call; null if it is empty. A refusal becomes kInvalid (400, 422 and others), kDenied
  // (401, 403), kNotFound, kTooLarge or kUnavailable (429, 5xx) with what the service said.
  Result<Json> get(const std::string& path);
  Result<Json> post(const std::string& path, const Json& body);
  Result<Json> put(const std::string& path, const Json& body);
  Result<Json> remove(const std::string& path);

 private:
  JsonService(std::unique_ptr<HttpClient> client, std::string url, HttpHeaders headers,
              std::chrono::milliseconds timeout);
  Result<Json> call(std::string_view method, const std::string& path, const Json* body);

  std::unique_ptr<HttpClient> client_;
  std::string url_;
  HttpHeaders headers_;
  std::chrono::milliseconds timeout_;
};

// Parts of an answer, by JSON pointer. Whatever shape the answer has: null, or an empty list, if there is no such part.
Json member_at(const Json& answer, const std::string& pointer);
Json list_at(const Json& answer, const std::string& pointer);
std::string text_at(const Json& answer, const std::string& pointer);  // empty if it is not a string

// "http://host:port" or "https://…" from the host of `url`, by its query member tls=yes|no.
enum class Tls { kNo, kYes };
Result<std::string> http_base(const Url& url, std::uint16_t default_port, Tls fallback);
// kInvalid if the query has other members than these.
Status check_url_options(const Url& url, std::initializer_list<std::string_view> known);

// These services store only flat metadata. So the whole is stored as JSON text in one member, and its strings, numbers
// and booleans also as members of their own, for filters. Numbers are stored as floating point, since some services
// never find an integer equal to one.
inline constexpr std::string_view kWholeMetadata = "warren_metadata";
Json flat_metadata(const Json& metadata);
// Also of items that others wrote: then all members that are there.
Json whole_metadata(const Json& flat);
// Of Chroma and Pinecone, which share MongoDB's language; null if the filter is empty.
Json mongo_filter(const VectorFilter& filter);

// An item's id is checked by its own rules before it is sent: check_items for those of a batch.
Result<std::vector<float>> numbers_of(const Json& list);
// One page of ids that come in any order.
VectorPage page_of(std::vector<std::string> ids, const VectorListOptions& options);

}  // namespace warren
