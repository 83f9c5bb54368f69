// The patterns of encrypted files (wr_cipher_pattern): which are accepted, and which of several decides about a path.
//
// A pattern matches as in text/glob.h, and everything below a directory that it matches.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/glob.h"

namespace warren {

// kInvalid, with the reason, for a pattern that matches nothing, or something else than it seems to: it is relative,
// has '.', '..' or an empty component, or an unclosed '['. kNameTooLong.
Status check_cipher_pattern(std::string_view pattern);

// Whether the pattern matches the path or a directory above it.
bool covers_path(const Glob& pattern, std::string_view path);

// Whether `a` decides about a path that both match: the one with the longer part before its first wildcard does; of
// equal ones the longer pattern; of those the first by bytes.
bool decides_before(std::string_view a, std::string_view b);

}  // namespace warren
