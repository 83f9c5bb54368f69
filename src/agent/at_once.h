// The same work for many things, several at a time: for requests that mostly wait.
#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace warren {

// Calls `one(index)` for each index, up to eight at once, on threads that end before it returns. The first error ends
// it and is returned.
Status for_each_at_once(std::size_t count, const std::function<Status(std::size_t)>& one);

}  // namespace warren
