#include "api/own_blobs.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "base/path.h"

namespace warren::v1 {
namespace {

constexpr std::size_t kOwnListKeys = 1'000;  // asked for at once

warren::Timestamp time_of(std::int64_t at_ms) {
  auto rest_ms = static_cast<std::int32_t>(at_ms % 1000);
  bool is_before = rest_ms < 0;  // 1970
  return {.seconds = at_ms / 1000 - (is_before ? 1 : 0),
          .nanoseconds = (is_before ? rest_ms + 1000 : rest_ms) * 1'000'000};
}

warren::BlobInfo info_of(std::string_view key, BlobInfo&& info) {
  warren::BlobInfo found{.key = std::string(key),
                         .size = info.size,
                         .version = std::move(info.version),
                         .modified = time_of(info.modified_ms),
                         .expires = {}};
  if (info.expires_at_ms) found.expires = time_of(*info.expires_at_ms);
  return found;
}

}  // namespace

// Whatever the user's code throws ends here.
template <class Call>
auto OwnBlobs::guarded(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return wrong(fmt::format("threw {}", quote(thrown.what())));
  } catch (...) {
    return wrong("threw something that is not a std::exception");
  }
}

Error OwnBlobs::wrong(std::string_view what) const {
  return {Code::kIo, fmt::format("the store {} {}", quote(name_), what)};
}

OwnBlobs::OwnBlobs(std::shared_ptr<v1::BlobStore> store) : store_(std::move(store)), name_("of this program") {
  Result<std::string> name = guarded([&]() -> Result<std::string> { return store_->name(); });
  if (name.ok()) name_ = *std::move(name);
  Result<BlobAbilities> found = guarded([&]() -> Result<BlobAbilities> { return store_->abilities(); });
  BlobAbilities can = found.ok() ? *found : BlobAbilities{};
  abilities_ = {.conditional_puts = can.conditional_puts,
                .ttl = can.time_to_live,
                .whole_batches = false,
                .lasts = can.lasts,
                .largest = can.largest};
}

Result<std::optional<warren::Blob>> OwnBlobs::get(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::optional<Blob> blob = WARREN_TRY(guarded([&] { return store_->get(key); }));
  if (!blob) return std::optional<warren::Blob>();
  blob->info.size = blob->content.size();
  return std::optional(warren::Blob{.info = info_of(key, std::move(blob->info)), .content = std::move(blob->content)});
}

Result<std::optional<warren::Blob>> OwnBlobs::get_range(std::string_view key, std::uint64_t offset,
                                                        std::uint64_t length) {
  WARREN_TRY(check_blob_key(key));
  std::optional<Blob> blob = WARREN_TRY(guarded([&] { return store_->get_range(key, offset, length); }));
  if (!blob) return std::optional<warren::Blob>();
  std::uint64_t there = offset < blob->info.size ? std::min(length, blob->info.size - offset) : 0;
  if (blob->content.size() != there) {
    return wrong(fmt::format("returned {} bytes of {} from offset {}, where {} are", blob->content.size(), quote(key),
                             offset, there));
  }
  return std::optional(warren::Blob{.info = info_of(key, std::move(blob->info)), .content = std::move(blob->content)});
}

Result<std::optional<warren::BlobInfo>> OwnBlobs::find(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::optional<BlobInfo> info = WARREN_TRY(guarded([&] { return store_->find(key); }));
  if (!info) return std::optional<warren::BlobInfo>();
  return std::optional(info_of(key, *std::move(info)));
}

Result<warren::BlobInfo> OwnBlobs::put(std::string_view key, Bytes content, const warren::PutOptions& options) {
  WARREN_TRY(check_blob_put(abilities_, key, content.size(), options));
  PutOptions asked{.time_to_live = options.ttl, .if_match = options.if_match, .if_absent = options.if_absent};
  BlobInfo info = WARREN_TRY(guarded([&] { return store_->put(key, as_text(content), asked); }));
  info.size = content.size();
  return info_of(key, std::move(info));
}

Result<bool> OwnBlobs::remove(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  return guarded([&] { return store_->remove(key); });
}

Result<std::vector<warren::BlobInfo>> OwnBlobs::list_keys(const std::string& prefix, const std::string& after,
                                                          std::size_t limit) {
  std::vector<warren::BlobInfo> found;
  std::string from = after.empty() ? prefix : std::max(after + '\0', prefix);  // the first key after `after`
  while (found.size() < limit) {
    std::size_t wanted = std::min(limit - found.size(), kOwnListKeys);
    std::vector<BlobInfo> page = WARREN_TRY(guarded([&] { return store_->list(prefix, from, wanted); }));
    for (BlobInfo& info : page) {
      std::string key = info.key;
      if (!key.starts_with(prefix) || key < from || !check_blob_key(key).ok() || found.size() == limit) {
        return wrong(fmt::format("listed {} out of turn", quote(key)));
      }
      found.push_back(info_of(key, std::move(info)));
      from = key + '\0';
    }
    if (page.size() < wanted) break;
  }
  return found;
}

Result<BlobPage> OwnBlobs::list(const ListOptions& options) {
  return list_in_pages(options, [this](const std::string& prefix, const std::string& after, std::size_t limit) {
    return list_keys(prefix, after, limit);
  });
}

Status OwnBlobs::apply(std::span<const BlobChange> changes) {
  for (const BlobChange& change : changes) {
    if (change.content) {
      WARREN_TRY(put(change.key, *change.content, change.options));
      continue;
    }
    WARREN_TRY(check_blob_removal(abilities_, change));
    WARREN_TRY(remove(change.key));
  }
  return Ok{};
}

}  // namespace warren::v1
