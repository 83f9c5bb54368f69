// Patterns of encrypted files, and the places of a namespace that are not files of the agent file: working memory, the
// list of checkpoints, the audit trail. What is there is encrypted with the whole agent only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

// The pattern is valid (store/ciphers/cipher_patterns.h). kInvalid, with what to do, if all that it can match is in
// such a place.
Status check_matches_files(std::string_view pattern);

// Such places, and those of `mounts`, in which the pattern matches something, too.
std::vector<std::string> list_places_left_out(std::string_view pattern, const std::vector<std::string>& mounts);

}  // namespace warren
