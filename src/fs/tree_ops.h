// Operations on whole trees, of any depth and width: walk and remove.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/path_walk.h"

namespace warren {

enum class WalkNext { kContinue, kSkip, kStop };  // kSkip: do not enter this directory

struct WalkEntry {
  std::string path;  // normalised; below the start, its path as given plus the names
  Attributes attributes;
};

struct WalkOptions {
  Follow follow = Follow::kYes;        // for the start only; links below it are never followed
  int depth_max = limits::kTreeDepth;  // kLimit for a directory deeper than this
};

using WalkVisitor = std::function<Result<WalkNext>(const WalkEntry&)>;

// Calls `visit` for the start and everything below it: a directory before its entries, entries in byte order of their
// names. Nothing is locked during `visit`, so it may change the tree; each directory is read in one state when the walk
// enters it, and skipped if it was removed by then. An error from `visit` ends the walk and is returned. Holds the
// names of one directory per level, and the numbers of all directories. kCorrupt if one has two names
// (fs/walked_dirs.h).
Status walk(FileSystem& fs, std::string_view path, const WalkVisitor& visit, const WalkOptions& options = {});

enum class Recursive { kNo, kYes };
enum class Force { kNo, kYes };

struct RemoveOptions {
  Recursive recursive = Recursive::kNo;  // kNo: kIsDirectory for a directory
  Force force = Force::kNo;              // kYes: a missing path is not an error
};

// Like rm. Removes a link, never its target. A tree is removed in Units of a bounded number of entries, so a crash or
// an error part-way leaves a smaller tree, and small trees are removed atomically.
Status remove(FileSystem& fs, std::string_view path, const RemoveOptions& options = {});

}  // namespace warren
