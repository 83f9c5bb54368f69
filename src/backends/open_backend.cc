#include "backends/open_backend.h"

#include <array>

#include <fmt/format.h>

#include "backends/blob/exec_blobs.h"
#include "backends/blob/memory_blobs.h"
#include "backends/blob/postgres_blobs.h"
#include "backends/blob/redis_blobs.h"
#include "backends/blob/s3_blobs.h"
#include "backends/blob/sqlite_blobs.h"
#include "backends/vector/vector_blobs.h"
#include "base/ascii.h"
#include "base/path.h"
#include "clients/url.h"

namespace warren {
namespace {

using StoreResult = Result<std::unique_ptr<BlobStore>>;

StoreResult open_memory_blobs(const std::string& address, const BackendOptions& options) {
  if (address != "memory:") {
    return Error(Code::kInvalid, fmt::format("nothing may follow \"memory:\" in {}", quote(address)));
  }
  return StoreResult(std::make_unique<MemoryBlobs>(options.clock));
}

StoreResult open_sqlite_blobs(const std::string& address, const BackendOptions& options) {
  std::string path = address.substr(address.find(':') + 1);
  if (path.empty()) {
    return Error(Code::kInvalid, "\"sqlite:\" lacks the path of its file", "write it as sqlite:/home/me/notes.db");
  }
  if (path.find('\0') != std::string::npos) return Error(Code::kInvalid, "a path must not contain a NUL byte");
  if (!path.starts_with('/') && !options.directory.empty()) path = fmt::format("{}/{}", options.directory, path);
  auto store = WARREN_TRY(SqliteBlobs::open(path, options.clock));
  return StoreResult(std::move(store));
}

StoreResult open_exec_blobs(const std::string& address, const BackendOptions& options) {
  auto store = WARREN_TRY(ExecBlobs::open(
      {.command = address.substr(address.find(':') + 1), .directory = options.directory, .timeout = options.timeout},
      options.clock));
  return StoreResult(std::move(store));
}

StoreResult open_redis_blobs(const std::string& address, const BackendOptions& options) {
  Url url = WARREN_TRY(parse_url(address));
  if (options.password) url.password = options.password;
  auto store = WARREN_TRY(RedisBlobs::open(url, options.timeout, options.clock));
  return StoreResult(std::move(store));
}

StoreResult open_postgres_blobs(const std::string& address, const BackendOptions& options) {
  auto store = WARREN_TRY(PostgresBlobs::open(address, options.password, options.timeout));
  return StoreResult(std::move(store));
}

StoreResult open_s3_blobs(const std::string& address, const BackendOptions& options) {
  S3Settings settings = WARREN_TRY(read_s3_settings(
      {.address = address, .secret_key = options.password, .timeout = options.timeout}, process_environment()));
  auto store = WARREN_TRY(S3Blobs::open(std::move(settings), options.clock));
  return StoreResult(std::move(store));
}

StoreResult open_memory_vectors(const std::string& address, const BackendOptions& options) {
  if (address != "vectors:") {
    return Error(Code::kInvalid, fmt::format("nothing may follow \"vectors:\" in {}", quote(address)));
  }
  return VectorBlobs::open("memory:", options);
}

struct BlobScheme {
  std::string_view scheme;
  std::string_view form;  // for people; empty: not worth naming
  StoreResult (*open)(const std::string& address, const BackendOptions& options);
};

constexpr std::array kBlobSchemes = {
    BlobScheme{"memory", "memory:", open_memory_blobs},
    BlobScheme{"sqlite", "sqlite:PATH", open_sqlite_blobs},
    BlobScheme{"vectors", "vectors:", open_memory_vectors},
    BlobScheme{"chroma", "chroma://HOST/COLLECTION", VectorBlobs::open},
    BlobScheme{"pinecone", "pinecone://:API-KEY@INDEX-HOST/NAMESPACE", VectorBlobs::open},
    BlobScheme{"weaviate", "weaviate://HOST/CLASS", VectorBlobs::open},
    BlobScheme{"exec", "exec:COMMAND", open_exec_blobs},
    BlobScheme{"redis", "redis://HOST", open_redis_blobs},
    BlobScheme{"rediss", "rediss://HOST (with TLS)", open_redis_blobs},
    BlobScheme{"redis+sentinel", "redis+sentinel://HOST,HOST/NAME", open_redis_blobs},
    BlobScheme{"rediss+sentinel", "", open_redis_blobs},
    BlobScheme{"redis+cluster", "redis+cluster://HOST,HOST", open_redis_blobs},
    BlobScheme{"rediss+cluster", "", open_redis_blobs},
    BlobScheme{"postgres", "postgres://HOST/DATABASE", open_postgres_blobs},
    BlobScheme{"postgresql", "", open_postgres_blobs},
    BlobScheme{"s3", "s3://BUCKET/PREFIX", open_s3_blobs},
};

}  // namespace

std::string known_blob_schemes() {
  std::string known;
  for (const BlobScheme& one : kBlobSchemes) {
    if (!one.form.empty()) known += fmt::format("{}{}", known.empty() ? "" : ", ", one.form);
  }
  return known;
}

bool is_service_address(std::string_view address) {
  std::size_t colon = address.find(':');
  return colon != std::string_view::npos && address.substr(colon).starts_with("://");
}

std::vector<std::string_view> passwords_in(std::string_view address) {
  std::vector<std::string_view> found;
  if (!is_service_address(address)) return found;
  address = address.substr(0, address.find('#'));
  std::size_t question = address.find('?');
  std::string_view authority = address.substr(0, question);
  authority.remove_prefix(authority.find("://") + 3);
  authority = authority.substr(0, authority.find('/'));
  std::string_view user = authority.substr(0, authority.rfind('@') + 1);  // npos + 1 is 0
  if (std::size_t colon = user.find(':'); colon != user.npos) {
    found.push_back(user.substr(colon + 1, user.size() - colon - 2));
  }
  std::string_view query = question == address.npos ? std::string_view() : address.substr(question + 1);
  while (!query.empty()) {
    std::string_view option = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), option.size() + 1));
    std::size_t equals = option.find('=');
    if (equals == option.npos) continue;
    Result<std::string> name = decode_percent(option.substr(0, equals));
    if (!name.ok() || to_lower(*name).ends_with("password")) found.push_back(option.substr(equals + 1));
  }
  return found;
}

Result<std::unique_ptr<BlobStore>> open_blob_store(const std::string& address, const BackendOptions& options) {
  std::size_t colon = address.find(':');
  if (colon == std::string::npos || colon == 0) {
    // Not quoted whole: what has no scheme may still be a secret.
    return Error(Code::kInvalid, "the address of a backend begins with its scheme",
                 fmt::format("known: {}", known_blob_schemes()));
  }
  std::string scheme = to_lower(address.substr(0, colon));
  for (const BlobScheme& one : kBlobSchemes) {
    if (one.scheme == scheme) return one.open(address, options);
  }
  return Error(Code::kInvalid, fmt::format("{} is not a known kind of backend", quote(scheme + ":")),
               fmt::format("known: {}", known_blob_schemes()));
}

}  // namespace warren
