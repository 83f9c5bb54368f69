// Path resolution: from a path to the node it names, and to the directory that holds its last name.
//
// Symbolic links on the way are followed, at most 40 (kLoop). '..' is walked, not removed from the text: it goes back
// to the directory the walk came from, never above the root. A trailing '/' or '/.' means that the node must be a
// directory, and that a link at the end is followed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// How to treat a symbolic link at the end of a path.
enum class Follow { kNo, kYes };

// The result of a walk. `name` is empty if the path does not end in a name: "/", "..", or a link that ends so; then
// `node` is set and `parent` is that directory itself.
struct Place {
  Inode parent;
  std::string name;
  std::optional<Attributes> node;  // nullopt: the name does not exist
  bool needs_directory = false;    // the path, or the link it ended in, has a trailing '/'
};

struct PlaceOptions {
  Follow follow = Follow::kYes;
  // Creates missing directories on the way (never the last name, and none that only a link names).
  std::optional<NewNode> missing_dirs;
};

// Makes several calls: begin a Unit around it. Errors name the path.
Result<Place> find_place(FileSystem& fs, std::string_view path, const PlaceOptions& options = {});

// The place of the last name as written, for calls that create, remove or rename names. A link there is not followed,
// even with a trailing '/'. kInvalid if the path ends in '.' or '..', kBusy for the root.
Result<Place> find_name(FileSystem& fs, std::string_view path);

// The path in quotes for messages, shortened if it is very long.
std::string quote_path(std::string_view path);

// "write '/a/b'", for Result::within: formatted only on failure.
inline auto doing(std::string_view verb, std::string_view path) {
  return [verb, path] { return std::string(verb) + " " + quote_path(path); };
}

}  // namespace warren
