// Path resolution: from a path to the node it names, and to the directory that holds its last name.
//
// Symbolic links on the way are followed, 40 at most (kLoop). '..' is walked, not cut from the text:
// it goes back to the directory the walk came from, and never above the root. A trailing '/' or
// '/.' means that the node must be a directory, and that a link at the end is followed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// What to do with a symbolic link that stands at the end of a path.
enum class Follow { kNo, kYes };

// Where a path leads. `name` is empty when the path ends in no name of its own: "/", "..", or a
// link that ends so; then `node` is there and `parent` is that directory itself.
struct Place {
  Inode parent;
  std::string name;
  std::optional<Attributes> node;  // nullopt: nothing has that name yet
  bool needs_directory = false;    // the path, or the link it ended in, has a trailing '/'
};

struct PlaceOptions {
  Follow follow = Follow::kYes;
  // Makes directories that are missing on the way (never the last name, and none that only a link
  // names).
  std::optional<NewNode> missing_dirs;
};

// Several calls: begin a Unit around it. Errors name the path.
Result<Place> find_place(FileSystem& fs, std::string_view path, const PlaceOptions& options = {});

// The place of the last name as it is written, for what makes, removes or renames names. A link there
// is the place itself, also with a trailing '/'. Fails with kInvalid when the path ends in '.' or '..',
// and with kBusy for the root.
Result<Place> find_name(FileSystem& fs, std::string_view path);

// The path in quotes for messages, shortened when it is very long.
std::string quote_path(std::string_view path);

// "write '/a/b'", for Result::within: put together on failure only.
inline auto doing(std::string_view verb, std::string_view path) {
  return [verb, path] { return std::string(verb) + " " + quote_path(path); };
}

}  // namespace warren
