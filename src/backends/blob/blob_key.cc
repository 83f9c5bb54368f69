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
    WARREN_TRY(check_name(rest.substr(0, slash)).within(fmt::format("key {}", quote(key))));
    if (slash == std::string_view::npos) return Ok{};
    rest.remove_prefix(slash + 1);
  }
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
