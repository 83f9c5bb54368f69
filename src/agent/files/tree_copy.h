// Copies a file or a whole tree node by node, and knows what it has copied: for cp, and for moves where a rename is not
// possible, because the two are in different mounts or have different rules.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"
#include "fs/tree_ops.h"

namespace warren {

// The size of the largest file that is copied to another mount.
inline constexpr std::uint64_t kAcrossBytesMax = std::uint64_t{256} << 20;

enum class CopyTarget { kNew, kMayExist };         // kNew: kExists if something is there
enum class CopyKeeps { kAttributes, kXattrsToo };  // kXattrsToo: also extended attributes, thus the time to live

struct TreeCopyOptions {
  CopyTarget target = CopyTarget::kMayExist;
  CopyKeeps keeps = CopyKeeps::kAttributes;
  std::function<Status()> check;  // before each node; its error ends the copy, and what was copied stays
};

// Copies one file. Between mounts the content goes through memory. CopyTarget::kNew: what somebody else makes there
// meanwhile is kExists, too, and stays theirs.
Status copy_one_file(FileSystem& fs, std::string_view from, std::string_view to,
                     CopyTarget target = CopyTarget::kMayExist);

// A node that was made by copying another.
struct CopiedPath {
  std::string from;
  std::string to;
  Attributes made;  // as the copy left it
};
// Undoes copies after the error `why`, the last one first. Removes only what is still as the copy left it and the same
// as its original: others may have written to the copy, or removed the original. Returns `why` with the names of the
// files that stay, and says whether they were changed or cannot be removed.
Error take_back(FileSystem& fs, const std::vector<CopiedPath>& copies, const Error& why);

// Whether a copy that was stopped has made its target, or the target was there before.
enum class StoppedIn { kNew, kExisting };
// The error of a copy that was stopped, as `why` says, after `count` nodes were copied to `to`.
Error stopped_copy(const Error& why, std::size_t count, std::string_view to, StoppedIn target);

// For one copy and one thread. A second name of a file becomes a file of its own. Modes, owners and times are not kept
// by a target in another mount that has none.
class TreeCopy {
 public:
  TreeCopy(FileSystem& fs, TreeCopyOptions options);

  // Copies what is there when it begins, so a target inside of the tree, through another mount of the same backend, is
  // not copied into itself. Links are copied as links. What is not there when it is looked for is made, never replaced:
  // kExists if somebody else makes it first. If it fails, what it has made is removed by take_back; if it is
  // stopped by `check`, that stays (stopped_copy).
  Status run(std::string_view from, std::string_view to);
  // After it, the copy is on the disk, if the target is. If it fails, the copy is removed as above.
  Status sync();
  // Removes what was copied and is still as it was, from the leaves up, in units of a bounded number of entries.
  // Whatever else is there now stays: kConflict for what was changed, kNotEmpty for a directory with something new.
  Status remove_originals();

 private:
  struct Node {
    std::string inside;  // its path below the start; empty: the start
    Attributes source;
    Attributes made;
    bool is_new = false;
  };

  Status check_stopped();
  std::string path_in(const std::string& top, const Node& node) const;
  Result<std::vector<std::string>> list_tree();
  Status copy_all();
  Status copy(const std::string& path);
  Status make(const Node& node, bool is_there, bool is_across);
  Status keep_xattrs(const Node& node);
  Status keep_attributes(Node& node, bool is_across);
  Status finish_directories();
  Error remove_made(const Error& why);
  Status remove_batch(std::size_t first, std::size_t end);

  FileSystem& fs_;
  TreeCopyOptions options_;
  std::string from_;
  std::string to_;
  bool is_new_ = false;      // nothing was there
  bool is_stopped_ = false;  // by `check`
  std::vector<Node> nodes_;  // a directory before what is in it
};

}  // namespace warren
