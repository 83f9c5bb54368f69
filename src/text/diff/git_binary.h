// Binary content in a patch, as `git diff --binary` writes it.
//
// The bytes are whole ("literal") and not compressed: a patch of a binary file is a quarter larger than the file, and
// this module needs no library for it. Git accepts any valid zlib stream.
#pragma once

#include <string>
#include <string_view>

namespace warren {

// The id that git gives to the content of a file in a repository with SHA-1: 40 hexadecimal digits. O(size).
std::string git_blob_id(std::string_view content);

// "GIT binary patch" with the new content and, for `git apply --reverse`, the old one. O(size).
std::string git_binary_patch(std::string_view before, std::string_view after);

}  // namespace warren
