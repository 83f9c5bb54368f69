// The change of one file as `git diff` prints it: for `git apply`, `patch -p1` and people.
//
// Applying it with `git apply` yields the new content byte for byte, also of binary files, unless these are only
// mentioned: git refuses such a patch rather than skip the file. `patch` cannot write binary files. There are no
// "index" lines, which name objects of a repository, except for binary files, where git needs them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/diff/unified.h"

namespace warren {

struct PatchSide {
  std::string path;          // from the root of the tree; leading '/' are dropped
  std::uint32_t mode = 0;    // as in stat; git records only the kind and whether the owner may execute
  std::string_view content;  // a symlink's target
};

// Without `before` the file is new, without `after` it is deleted; with two paths it was renamed.
struct FilePatch {
  std::optional<PatchSide> before;
  std::optional<PatchSide> after;
};

// "" if nothing that git records has changed, and for a file that is on neither side. A file that becomes a symlink, or
// the reverse, is one deletion and one creation. Patches cannot express directories and special files: every kind other
// than a symlink is treated as a file.
enum class BinaryContent { kMentioned, kIncluded };
std::string git_patch(const FilePatch& file, UnifiedOptions options = {},
                      BinaryContent binary = BinaryContent::kIncluded);

// 100644, 100755 or 120000, as git does.
std::uint32_t git_mode(std::uint32_t mode);

// A path as git writes it in headers (core.quotePath on): unchanged, or between double quotes with C escapes if it has
// a control character, a quote, a backslash or a non-ASCII byte. `prefix` ("a/") goes inside the quotes.
std::string git_quote(std::string_view prefix, std::string_view path);

}  // namespace warren
