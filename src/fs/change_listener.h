// Receives notice of changes that others made in a filesystem, so that cached copies can be dropped.
#pragma once

#include <string_view>

#include "fs/types.h"

namespace warren {

// "Others" do not use the same FileSystem object: mostly other processes. Called from a thread of the filesystem's own,
// without a lock held, soon after the change is visible.
class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void entry_changed(Inode parent, std::string_view name) = 0;  // now names another node, or nothing
  virtual void node_changed(Inode node) = 0;                            // content or attributes
  virtual void everything_changed() = 0;                                // what exactly is unknown
};

}  // namespace warren
