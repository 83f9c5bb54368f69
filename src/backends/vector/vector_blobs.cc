#include "backends/vector/vector_blobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "backends/vector/open_vector_index.h"
#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "crypto/digest.h"

namespace warren {
namespace {

constexpr std::string_view kItemSuffix = ".json";
constexpr std::size_t kEmptyValues = 100'000;

// The id of the item under this key; nullopt if no item can be.
std::optional<std::string> id_of_key(std::string_view key) {
  if (!key.ends_with(kItemSuffix)) return std::nullopt;
  std::string_view id = key.substr(0, key.size() - kItemSuffix.size());
  if (id.empty() || id.ends_with('/')) return std::nullopt;
  return std::string(id);
}

Blob blob_of(std::string_view key, const VectorItem& item) {
  Blob blob;
  blob.content = format_vector_item(item);
  blob.info.key = key;
  blob.info.size = blob.content.size();
  blob.info.version = sha256_hex(as_bytes(blob.content));
  return blob;
}

}  // namespace

Result<std::unique_ptr<BlobStore>> VectorBlobs::open(const std::string& address, const BackendOptions& options) {
  auto index = WARREN_TRY(open_vector_index(address, options));
  return std::unique_ptr<BlobStore>(std::make_unique<VectorBlobs>(std::move(index)));
}

BlobAbilities VectorBlobs::abilities() const {
  return {.conditional_puts = false, .ttl = false, .whole_batches = false, .largest = 16ULL << 20};
}

Result<std::optional<Blob>> VectorBlobs::get(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  if (std::optional<std::string> id = id_of_key(key)) {
    std::optional<VectorItem> item = WARREN_TRY(index_->get(*id));
    if (item) return std::optional(blob_of(key, *item));
  }
  std::lock_guard lock(empty_mutex_);
  if (!empty_.contains(key)) return std::optional<Blob>();
  Blob empty;
  empty.info.key = key;
  return std::optional(std::move(empty));
}

Result<std::optional<Blob>> VectorBlobs::get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  std::optional<Blob> blob = WARREN_TRY(get(key));
  if (blob) blob->content = offset < blob->content.size() ? blob->content.substr(offset, length) : std::string();
  return blob;
}

Result<std::optional<BlobInfo>> VectorBlobs::find(std::string_view key) {
  std::optional<Blob> blob = WARREN_TRY(get(key));
  if (!blob) return std::optional<BlobInfo>();
  return std::optional(std::move(blob->info));
}

Result<BlobInfo> VectorBlobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_blob_put(abilities(), key, content.size(), options));
  std::optional<std::string> id = id_of_key(key);
  std::optional<VectorItem> replaced;
  if (content.empty() && id) replaced = WARREN_TRY(index_->get(*id));
  if (content.empty() && !replaced) {
    WARREN_TRY(put_empty(key));
    return BlobInfo{.key = std::string(key)};
  }
  if (!id) {
    return Error(Code::kInvalid, fmt::format("{} cannot be an item of a vector index", quote(key)),
                 "names of items end in .json");
  }
  VectorItem item = WARREN_TRY(parse_vector_item(as_text(content), Members::kKnown).within([&] { return quote(key); }));
  item.id = *id;
  WARREN_TRY(index_->upsert(std::span(&item, 1)));
  std::lock_guard lock(empty_mutex_);
  empty_.erase(std::string(key));
  return blob_of(key, item).info;
}

Status VectorBlobs::put_empty(std::string_view key) {
  std::lock_guard lock(empty_mutex_);
  if (empty_.size() >= kEmptyValues && !empty_.contains(key)) {
    return Error(Code::kNoSpace, fmt::format("a vector index has at most {} files without content", kEmptyValues));
  }
  empty_.emplace(key);
  return Ok{};
}

Result<bool> VectorBlobs::remove(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::optional<std::string> id = id_of_key(key);
  bool was_item = id && WARREN_TRY(index_->remove(*id));
  std::lock_guard lock(empty_mutex_);
  return empty_.erase(std::string(key)) > 0 || was_item;
}

// The order of keys is not that of ids ("a" and "a.b" become "a.json" and "a.b.json"), so all of a folder are sorted.
Result<std::vector<BlobInfo>> VectorBlobs::list_plain(const std::string& prefix, const std::string& after,
                                                      std::size_t limit) {
  VectorListOptions options{.prefix = prefix.substr(0, prefix.rfind('/') + 1), .after = {}};
  std::vector<std::string> keys;
  do {
    VectorPage page = WARREN_TRY(index_->list(options));
    for (const std::string& id : page.ids) {
      std::string key = id + std::string(kItemSuffix);
      if (key.starts_with(prefix) && key > after && check_blob_key(key).ok()) keys.push_back(std::move(key));
    }
    options.after = page.next;
  } while (!options.after.empty());
  {
    std::lock_guard lock(empty_mutex_);
    for (const std::string& key : empty_) {
      if (key.starts_with(prefix) && key > after) keys.push_back(key);
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<BlobInfo> found;
  for (const std::string& key : keys) {
    if (found.size() == limit) break;
    std::optional<BlobInfo> info = WARREN_TRY(find(key));
    if (info) found.push_back(std::move(*info));
  }
  return found;
}

Result<BlobPage> VectorBlobs::list(const ListOptions& options) {
  return list_in_pages(options, [&](const std::string& prefix, const std::string& after, std::size_t limit) {
    return list_plain(prefix, after, limit);
  });
}

Status VectorBlobs::apply(std::span<const BlobChange> changes) {
  for (const BlobChange& change : changes) {
    if (change.content) {
      WARREN_TRY(put(change.key, *change.content, change.options));
      continue;
    }
    WARREN_TRY(check_blob_removal(abilities(), change));
    WARREN_TRY(remove(change.key));
  }
  return Ok{};
}

}  // namespace warren
