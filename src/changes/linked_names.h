// Other names of the base's files: a link of the base that leads to one, by a name that programs look for. A change of
// /env.sh is one of /.envrc, if that is a link to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace warren {

// Why a file at this path of the base ("/env.sh") runs by itself because of such a link; nullopt if it does not. Looks
// at the links in the directories above the path, and in their folders with such files (.vscode), not at the whole
// tree. What it found in a directory is kept until the directory changes. Thread-safe.
std::optional<std::string> runs_through_link(const std::string& base, std::string_view path);

}  // namespace warren
