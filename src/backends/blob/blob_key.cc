#include "backends/blob/blob_key.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/path.h"

namespace warren {

Status check_blob_key(std::string_view key) {
  if (key.empty()) return Error(Code::kInvalid, "a key must not be empty");
  if (key.size() > kLongestBlobKey) {
    return Error(Code::kNameTooLong,
                 fmt::format("the key is {} bytes long; at most {} are allowed", key.size(), kLongestBlobKey));
  }
  std::string_view rest = key;
  while (true) {
    std::size_t slash = rest.find('/');
    std::string_view component = rest.substr(0, slash);
    if (component.empty()) {
      return Error(Code::kInvalid,
                   fmt::format("key {} must not begin or end with a slash, or have two in a row", quote(key)));
    }
    WARREN_TRY(check_name(component).within([&] { return fmt::format("key {}", quote(key)); }));
    if (slash == std::string_view::npos) return Ok{};
    rest.remove_prefix(slash + 1);
  }
}

Status check_blob_put(const BlobAbilities& abilities, std::string_view key, std::uint64_t size,
                      const PutOptions& options) {
  WARREN_TRY(check_blob_key(key));
  if (size > abilities.largest) {
    return Error(Code::kTooLarge, fmt::format("{} has {} bytes; this store takes at most {} in one value", quote(key),
                                              size, abilities.largest));
  }
  if (options.ttl && options.ttl->count() <= 0) {
    return Error(Code::kInvalid, fmt::format("the time to live of {} must be positive", quote(key)));
  }
  if (options.ttl && !abilities.ttl) {
    return Error(Code::kUnsupported, "this store cannot let values expire");
  }
  if ((options.if_match || options.if_absent) && !abilities.conditional_puts) {
    return Error(Code::kUnsupported, "this store has no conditional puts");
  }
  if (options.if_match && options.if_absent) {
    return Error(Code::kInvalid, "a put can be conditional on a version or on absence, not on both");
  }
  return Ok{};
}

Status check_blob_removal(const BlobAbilities& abilities, const BlobChange& change) {
  WARREN_TRY(check_blob_key(change.key));
  if (!change.options.if_match || abilities.conditional_removals) return Ok{};
  return Error(Code::kUnsupported, "this store has no conditional removals");
}

Status check_blob_condition(std::string_view key, const PutOptions& options, const std::string* current) {
  if (options.if_absent && current != nullptr) {
    return Error(Code::kExists, fmt::format("{} already has a value", quote(key)));
  }
  if (options.if_match && (current == nullptr || *current != *options.if_match)) {
    return Error(Code::kConflict,
                 fmt::format("{} was {} by another writer", quote(key), current == nullptr ? "removed" : "changed"));
  }
  return Ok{};
}

std::optional<Timestamp> expiry_of(const PutOptions& options, Timestamp now) {
  // A hundred million years, which keeps the sum far from overflow.
  constexpr std::int64_t kForeverSeconds = std::int64_t{100'000'000} * 366 * 24 * 3600;
  if (!options.ttl) return std::nullopt;
  std::int64_t ms = options.ttl->count();
  if (ms / 1000 > kForeverSeconds) return std::nullopt;
  std::int64_t nanoseconds = now.nanoseconds + ms % 1000 * 1'000'000;
  return Timestamp{.seconds = now.seconds + ms / 1000 + nanoseconds / 1'000'000'000,
                   .nanoseconds = static_cast<std::int32_t>(nanoseconds % 1'000'000'000)};
}

Result<BlobPage> list_in_pages(const ListOptions& options, const PlainList& list) {
  BlobPage page;
  std::size_t limit = std::max<std::size_t>(options.limit, 1);
  if (!options.by_folder) {
    page.blobs = WARREN_TRY(list(options.prefix, options.after, limit));
    if (page.blobs.size() == limit) page.next = page.blobs.back().key;
    return page;
  }
  // Behind a folder "a/" continue from "a0": '0' is the byte after '/', so nothing below "a/" is in between. "a0"
  // itself would be left out by "behind", so the jump ends just before it, at the largest key below "a/".
  std::string after = options.after;
  auto behind_folder = [](const std::string& folder) { return folder + std::string(kLongestBlobKey, '\xff'); };
  if (after.ends_with('/')) after = behind_folder(after);
  while (true) {
    std::vector<BlobInfo> found = WARREN_TRY(list(options.prefix, after, limit));
    bool is_last = found.size() < limit;
    bool jumped = false;
    for (BlobInfo& blob : found) {
      std::size_t slash = blob.key.find('/', options.prefix.size());
      std::string place = slash == std::string::npos ? blob.key : blob.key.substr(0, slash + 1);
      if (slash == std::string::npos) {
        page.blobs.push_back(std::move(blob));
        after = place;
      } else {
        page.folders.push_back(place);
        after = behind_folder(place);
        jumped = true;
      }
      if (page.blobs.size() + page.folders.size() == limit) {
        page.next = place;
        return page;
      }
      if (jumped) break;
    }
    if (!jumped && is_last) return page;
  }
}

}  // namespace warren
