// Reads the content of many files of commits with few calls of git.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/git/git.h"

namespace warren {

using BlobTexts = std::vector<std::optional<std::string_view>>;

// Calls `visit` for each of `sets` in turn, with the content of each of its ids. nullopt for an id that is not one of a
// blob in the repository, such as "", and for more than `bytes_max`. The content is valid during the call.
Status visit_blobs(Git& git, const std::vector<std::vector<std::string>>& sets, std::uint64_t bytes_max,
                   const std::function<Status(std::size_t set, const BlobTexts& texts)>& visit);

}  // namespace warren
