#include "backends/blob/memory_blobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"

namespace warren {

BlobAbilities MemoryBlobs::abilities() const {
  return {.conditional_removals = true, .whole_batches = true, .lasts = false};
}

MemoryBlobs::Blobs::iterator MemoryBlobs::find_live(std::string_view key) {
  auto it = blobs_.find(key);
  if (it == blobs_.end() || !it->second.info.expires || *it->second.info.expires > clock_.now()) return it;
  used_bytes_ -= it->first.size() + it->second.content.size();
  blobs_.erase(it);
  return blobs_.end();
}

Result<std::optional<Blob>> MemoryBlobs::get(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::scoped_lock lock(mutex_);
  auto it = find_live(key);
  return it == blobs_.end() ? std::nullopt : std::optional(it->second);
}

Result<std::optional<Blob>> MemoryBlobs::get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  WARREN_TRY(check_blob_key(key));
  std::scoped_lock lock(mutex_);
  auto it = find_live(key);
  if (it == blobs_.end()) return std::optional<Blob>();
  Blob blob{.info = it->second.info, .content = {}};
  const std::string& content = it->second.content;
  if (offset < content.size()) blob.content = content.substr(offset, length);
  return std::optional(std::move(blob));
}

Result<std::optional<BlobInfo>> MemoryBlobs::find(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::scoped_lock lock(mutex_);
  auto it = find_live(key);
  return it == blobs_.end() ? std::nullopt : std::optional(it->second.info);
}

Result<BlobInfo> MemoryBlobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  std::scoped_lock lock(mutex_);
  return put_locked(key, content, options);
}

Result<BlobInfo> MemoryBlobs::put_locked(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_blob_put(abilities(), key, content.size(), options));
  auto it = find_live(key);
  bool exists = it != blobs_.end();
  WARREN_TRY(check_blob_condition(key, options, exists ? &it->second.info.version : nullptr));
  std::uint64_t before = exists ? key.size() + it->second.content.size() : 0;
  std::uint64_t used = used_bytes_ - before + key.size() + content.size();
  if (used > total_bytes_) {
    return Error(Code::kNoSpace, fmt::format("a store in memory holds at most {} bytes", total_bytes_));
  }
  used_bytes_ = used;
  Timestamp now = clock_.now();
  BlobInfo info{.key = std::string(key),
                .size = content.size(),
                .version = std::to_string(++last_version_),
                .modified = now,
                .expires = expiry_of(options, now)};
  blobs_.insert_or_assign(std::string(key), Blob{.info = info, .content = std::string(as_text(content))});
  return info;
}

Result<bool> MemoryBlobs::remove(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::scoped_lock lock(mutex_);
  return erase(key);
}

bool MemoryBlobs::erase(std::string_view key) {
  auto it = find_live(key);
  if (it == blobs_.end()) return false;
  used_bytes_ -= it->first.size() + it->second.content.size();
  blobs_.erase(it);
  return true;
}

Result<BlobPage> MemoryBlobs::list(const ListOptions& options) {
  std::scoped_lock lock(mutex_);
  Timestamp now = clock_.now();
  return list_in_pages(
      options,
      [&](const std::string& prefix, const std::string& after, std::size_t limit) -> Result<std::vector<BlobInfo>> {
        std::vector<BlobInfo> found;
        auto it = after < prefix ? blobs_.lower_bound(prefix) : blobs_.upper_bound(after);
        for (; it != blobs_.end() && it->first.starts_with(prefix) && found.size() < limit; ++it) {
          const BlobInfo& info = it->second.info;
          if (!info.expires || *info.expires > now) found.push_back(info);
        }
        return found;
      });
}

Status MemoryBlobs::change_locked(const BlobChange& change) {
  if (change.content) {
    WARREN_TRY(put_locked(change.key, *change.content, change.options));
    return Ok{};
  }
  auto it = find_live(change.key);
  WARREN_TRY(check_blob_condition(change.key, change.options, it == blobs_.end() ? nullptr : &it->second.info.version));
  erase(change.key);
  return Ok{};
}

Status MemoryBlobs::apply(std::span<const BlobChange> changes) {
  std::scoped_lock lock(mutex_);
  // What each key had before the batch, to take it back.
  std::map<std::string, std::optional<Blob>> before;
  Status done = Ok{};
  for (const BlobChange& change : changes) {
    done = check_blob_key(change.key);
    if (!done.ok()) break;
    if (!before.contains(change.key)) {
      auto it = find_live(change.key);
      before.emplace(change.key, it == blobs_.end() ? std::nullopt : std::optional(it->second));
    }
    done = change_locked(change);
    if (!done.ok()) break;
  }
  if (done.ok()) return done;
  for (auto& [key, blob] : before) {
    erase(key);
    if (!blob) continue;
    used_bytes_ += key.size() + blob->content.size();
    blobs_.insert_or_assign(key, std::move(*blob));
  }
  return done;
}

}  // namespace warren
