// Which agent a file is of: a random number that every copy keeps, `identity` in wr_meta. Two agents of the same name
// have different ones. Files that were made before there were identities have none until one is made.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace warren {

// 32 hexadecimal digits.
bool is_identity(std::string_view text);

// nullopt also for one that is not valid.
Result<std::optional<std::string>> find_identity(Store& store);

// The file's own, which is made if it has none. The store must be writable.
Result<std::string> ensure_identity(Store& store);

}  // namespace warren
