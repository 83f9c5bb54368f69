// Files of a work tree that the settings of its repository name: git runs them, or takes more settings from them.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace warren {

// Paths below `base` ("/tools/clean.sh"), also of directories, that some value names as a word of its own. `listed` is
// the output of `git config --list -z` for the work tree at `top`.
std::set<std::string> parse_named_paths(std::string_view listed, const std::string& base, const std::string& top);

// Whether the path or a directory above it is named by the settings of the user's repository at or around `base`; not
// without git. What git says is kept until the settings' file changes.
bool is_named_by_git(const std::string& base, std::string_view path);

}  // namespace warren
