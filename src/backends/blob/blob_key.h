// Keys of blob stores, and listings by folder for stores that only know an ordered list of keys.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "backends/blob/blob_store.h"
#include "base/result.h"

namespace warren {

inline constexpr std::size_t kLongestBlobKey = 1024;

// kInvalid or kNameTooLong, naming what is wrong with it.
Status check_blob_key(std::string_view key);

// Keys behind `after` in their order, at most `limit`, without looking at folders.
using PlainList = std::function<Result<std::vector<BlobInfo>>(const std::string& prefix, const std::string& after,
                                                              std::size_t limit)>;

// A page as `options` asks for it. What lies in a folder is jumped over: a folder costs one call, however much it
// holds.
Result<BlobPage> list_in_pages(const ListOptions& options, const PlainList& list);

}  // namespace warren
