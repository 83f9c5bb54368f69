// Keys of blob stores, and listings by folder for stores that only know an ordered list of keys.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/blob/blob_store.h"
#include "base/result.h"

namespace warren {

inline constexpr std::size_t kLongestBlobKey = 1024;

// kInvalid or kNameTooLong, naming what is wrong with it.
Status check_blob_key(std::string_view key);

// What every put checks before it does anything: key, size, and options that the store cannot do. kInvalid,
// kNameTooLong, kTooLarge, kUnsupported.
Status check_blob_put(const BlobAbilities& abilities, std::string_view key, std::uint64_t size,
                      const PutOptions& options);

// What every removal of a batch checks: key, and a condition that the store cannot check. kInvalid, kNameTooLong,
// kUnsupported.
Status check_blob_removal(const BlobAbilities& abilities, const BlobChange& change);

// For stores that compare versions themselves: kExists or kConflict if the condition does not hold. `current` is null
// if there is no value.
Status check_blob_condition(std::string_view key, const PutOptions& options, const std::string* current);

// When a value that is put now expires; unset for never, and for times that no clock reaches.
std::optional<Timestamp> expiry_of(const PutOptions& options, Timestamp now);

// Keys behind `after` in their order, at most `limit`, without looking at folders.
using PlainList = std::function<Result<std::vector<BlobInfo>>(const std::string& prefix, const std::string& after,
                                                              std::size_t limit)>;

// A page as `options` asks for it. What lies in a folder is jumped over: a folder costs one call, however much it
// holds.
Result<BlobPage> list_in_pages(const ListOptions& options, const PlainList& list);

}  // namespace warren
