#include "agent/checkpoints/checkpoint_blobs.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "backends/blob/blob_key.h"
#include "base/json.h"
#include "base/path.h"

namespace warren {
namespace {

constexpr std::string_view kCause = "namespace";

Blob blob_of(const Checkpoint& one, std::string key) {
  Json json{{"id", one.id}, {"name", one.name}, {"taken_at_ms", one.at_us / 1000}, {"cause", one.cause}};
  Blob blob;
  blob.content = dump_json_pretty(json) + "\n";
  std::int64_t seconds = std::max<std::int64_t>(one.at_us, 0) / 1'000'000;
  auto nanoseconds = static_cast<std::int32_t>(std::max<std::int64_t>(one.at_us, 0) % 1'000'000 * 1000);
  blob.info = {.key = std::move(key),
               .size = blob.content.size(),
               .version = std::to_string(one.id),
               .modified = {seconds, nanoseconds},
               .expires = {}};
  return blob;
}

Error no_change(std::string_view what) {
  return {
      Code::kDenied,
      fmt::format("{} in {}: only taking a checkpoint is possible there, with an empty file", what, kCheckpointsPath),
      "`warren checkpoint ID` restores, removes and prunes them"};
}

}  // namespace

BlobAbilities CheckpointBlobs::abilities() const {
  return {.conditional_puts = true, .ttl = false, .largest = 1 << 20};
}

Result<std::vector<Blob>> CheckpointBlobs::all() {
  std::vector<Checkpoint> taken = WARREN_TRY(list_checkpoints(agent_));
  std::vector<Blob> blobs;
  std::set<std::string_view> seen;
  for (auto one = taken.rbegin(); one != taken.rend(); ++one) {
    if (!check_checkpoint_name(one->name).ok()) continue;  // a stranger's row
    bool is_newest = seen.insert(one->name).second;
    blobs.push_back(blob_of(*one, is_newest ? one->name : label_of(*one)));
  }
  std::ranges::sort(blobs, {}, [](const Blob& blob) -> const std::string& { return blob.info.key; });
  return blobs;
}

Result<std::optional<Blob>> CheckpointBlobs::get(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::vector<Blob> blobs = WARREN_TRY(all());
  auto found = std::ranges::find(blobs, key, [](const Blob& blob) { return std::string_view(blob.info.key); });
  return found == blobs.end() ? std::nullopt : std::optional(std::move(*found));
}

Result<std::optional<Blob>> CheckpointBlobs::get_range(std::string_view key, std::uint64_t offset,
                                                       std::uint64_t length) {
  std::optional<Blob> blob = WARREN_TRY(get(key));
  if (blob) blob->content = offset < blob->content.size() ? blob->content.substr(offset, length) : std::string();
  return blob;
}

Result<std::optional<BlobInfo>> CheckpointBlobs::find(std::string_view key) {
  std::optional<Blob> blob = WARREN_TRY(get(key));
  return blob ? std::optional(std::move(blob->info)) : std::nullopt;
}

Result<BlobInfo> CheckpointBlobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_checkpoint_name(key));
  std::optional<BlobInfo> there = WARREN_TRY(find(key));
  if (!content.empty()) return no_change(fmt::format("write to {}", quote(key)));
  if (there && !options.if_absent) {
    return Error(Code::kDenied, fmt::format("there is a checkpoint {} already", quote(key)), "choose another name");
  }
  WARREN_TRY(check_blob_condition(key, options, there ? &there->version : nullptr));
  // The view of the namespace records what cannot be done.
  Checkpoint made = WARREN_TRY(take_agents_checkpoint(agent_, key, kCause, mounted_));
  return blob_of(made, std::string(key)).info;
}

Result<bool> CheckpointBlobs::remove(std::string_view key) { return no_change(fmt::format("remove {}", quote(key))); }

Result<BlobPage> CheckpointBlobs::list(const ListOptions& options) {
  std::vector<Blob> blobs = WARREN_TRY(all());
  return list_in_pages(
      options,
      [&](const std::string& prefix, const std::string& after, std::size_t limit) -> Result<std::vector<BlobInfo>> {
        std::vector<BlobInfo> found;
        for (const Blob& blob : blobs) {
          bool is_wanted = blob.info.key.starts_with(prefix) && blob.info.key > after;
          if (is_wanted && found.size() < limit) found.push_back(blob.info);
        }
        return found;
      });
}

Status CheckpointBlobs::apply(std::span<const BlobChange> changes) {
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
