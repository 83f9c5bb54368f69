// Hears what others changed in a filesystem, so that whoever keeps copies can drop them.
#pragma once

#include <string_view>

#include "fs/types.h"

namespace warren {

// "Others" are those who do not go through the same FileSystem object: another process, mostly.
// Called from a thread of the filesystem's own, without a lock held, soon after the change is there.
class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void entry_changed(Inode parent, std::string_view name) = 0;  // means something else now, or nothing
  virtual void node_changed(Inode node) = 0;                            // content or attributes
  virtual void everything_changed() = 0;                                // what exactly cannot be told
};

}  // namespace warren
