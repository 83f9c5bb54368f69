// The change of one file as `git diff` would print it: for `git apply` and `patch -p1`, and for people.
//
// Applying the text with `git apply` gives the new content exactly, byte for byte; binary content is only
// said to differ, and git refuses such a patch rather than leave the file out. There are no "index" lines,
// which name objects of a repository.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/unified.h"

namespace warren {

struct PatchSide {
  std::string path;          // from the root of the tree; leading '/' are dropped
  std::uint32_t mode = 0;    // as in stat; git keeps only the kind and whether the owner may execute
  std::string_view content;  // a symlink's target
};

// Without `before` the file is new, without `after` it is gone; with two paths it was renamed.
struct FilePatch {
  std::optional<PatchSide> before;
  std::optional<PatchSide> after;
};

// "" when nothing git knows of has changed, and for a file that is on neither side. A file that becomes a
// symlink, or the other way, is one deletion and one creation. Directories and special files have no place in
// a patch: kinds other than a symlink are taken for a file.
std::string git_patch(const FilePatch& file, UnifiedOptions options = {});

// 100644, 100755 or 120000, as git has it.
std::uint32_t git_mode(std::uint32_t mode);

// A path as git writes it in headers (core.quotePath on): as it is, or between double quotes with C escapes
// when it has a control character, a quote, a backslash or a byte that is not ASCII. `prefix` ("a/") goes
// inside the quotes.
std::string git_quote(std::string_view prefix, std::string_view path);

}  // namespace warren
