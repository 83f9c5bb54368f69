// Paths inside an agent: bytes, absolute, split on '/', with '.' and empty components dropped.
//
// A path is hostile input. Nothing here touches a filesystem, so '..' is kept as a component: what
// it means depends on the symbolic links before it, and only path resolution knows those.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

// Splits and checks a path: no NUL, at most 4096 bytes, each name at most 255. A path without a
// leading '/' is taken from the root, as every AgentFS door does. The views point into `path`.
Result<std::vector<std::string_view>> split_path(std::string_view path);

// Checks one name: not empty, not '.' or '..', no '/', no NUL, at most 255 bytes.
Status check_name(std::string_view name);

// Checks the target of a symbolic link: kNotFound if it is empty, kNameTooLong, kInvalid if it contains a NUL.
Status check_link_target(std::string_view target);

// Checks the name of an extended attribute: kInvalid if it is empty or contains a NUL, kRange if it is too long.
Status check_xattr_name(std::string_view name);

// The path with one leading '/', no trailing one, and no '.' or empty components: "/a/b", "/".
// Purely textual: '..' stays.
Result<std::string> normalise_path(std::string_view path);

// Whether the path is absolute, with one '/' before each name and none at the end, and without '.' and '..'. It may be
// longer than one that a caller can give: a program reaches a file of any depth with chdir.
bool is_normal_path(std::string_view path);

// "/a" + "b" = "/a/b"; "/" + "b" = "/b".
std::string join_path(std::string_view parent, std::string_view name);

// "/a/b" → {"/a", "b"}; "/a" → {"/", "a"}. The path must be normalised and not "/".
struct SplitParent {
  std::string_view parent;
  std::string_view name;
};
SplitParent split_parent(std::string_view normalised);

// The directory part and the last component of any path, host paths included, without trailing slashes; as text only.
// "/a/b" → "/a", "b"; "/a" → "/", "a"; "a" → ".", "a".
std::string_view directory_of(std::string_view path);
std::string_view base_name(std::string_view path);

// For messages: the bytes in quotes, with control characters and invalid UTF-8 written as \xNN.
std::string quote(std::string_view bytes);

}  // namespace warren
