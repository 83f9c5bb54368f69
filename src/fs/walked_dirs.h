// What ends a walk of an agent's tree. Each directory has one name there, but a file from elsewhere can break that
// rule, so that a directory is inside itself, or is found by more paths than anybody can count. Only fsck compares all
// names.
#pragma once

#include <string_view>
#include <unordered_set>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// kCorrupt: the directory at this path has another name, too.
Error has_two_names(std::string_view path);
// kCorrupt if it has. Not on filesystems that do not know all names (FileSystem::list_names_of). May search the whole
// filesystem: for a directory that was found at two places, since it may have been moved meanwhile.
Status check_one_name(FileSystem& fs, Inode dir, std::string_view path);

// The directories that one walk has entered.
class WalkedDirs {
 public:
  explicit WalkedDirs(FileSystem& fs) : fs_(fs) {}

  // kCorrupt if it was entered before, by another name that it still has.
  Status enter(Inode dir, std::string_view path) {
    return entered_.insert(dir).second ? Status(Ok{}) : check_one_name(fs_, dir, path);
  }

 private:
  FileSystem& fs_;
  std::unordered_set<Inode> entered_;
};

}  // namespace warren
