#include "agent/checkpoints/mounted_listing.h"

#include <algorithm>

#include <fmt/format.h>

#include "crypto/digest.h"

namespace warren {

Result<std::optional<std::vector<BlobInfo>>> list_mounted(BlobStore& store, std::string_view mount,
                                                          CopyBudget& budget) {
  std::vector<BlobInfo> all;
  ListOptions options;
  do {
    Result<BlobPage> page = store.list(options);
    bool cannot_list = !page.ok() && page.error().code() == Code::kUnsupported;
    if (cannot_list) return std::optional<std::vector<BlobInfo>>();
    if (!page.ok()) return std::move(page).take_error();
    for (BlobInfo& info : page->blobs) {
      WARREN_TRY(budget.take(mount, info.size));
      all.push_back(std::move(info));
    }
    if (!page->next.empty() && page->next <= options.after) {
      return Error(Code::kUnavailable, "the store lists its values in a circle");
    }
    options.after = std::move(page->next);
  } while (!options.after.empty());
  std::ranges::sort(all, {}, [](const BlobInfo& info) -> const std::string& { return info.key; });
  return std::optional(std::move(all));
}

std::string mounted_token(std::string_view identity, const BlobInfo& info) {
  bool is_unversioned = info.version.empty() || info.version == "0";  // put by a program that keeps no versions
  if (is_unversioned) return {};
  std::string all = fmt::format("{}\n{}\n{}", identity, info.version, info.size);
  return sha256_hex(as_bytes(all)).substr(0, 32);
}

}  // namespace warren
