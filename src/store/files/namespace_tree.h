// The second tree of an agent file: the namespace of an agent with a base, whose first tree is the project's.
//
// Its root is a directory without a name, so nothing that begins at the first root reaches it: neither an overlay nor
// another program (docs/format.md, WR-35).
#pragma once

#include <memory>

#include "fs/mounts/subtree_fs.h"
#include "store/store.h"

namespace warren {

// Thread-safe. The store outlives it.
class NamespaceTree final : public SubtreeFs {
 public:
  // Makes the root if the agent has none; kNotFound if it has none and cannot be written. kCorrupt if what the file
  // names is not a root.
  static Result<std::unique_ptr<NamespaceTree>> open_in(Store& store);

 private:
  NamespaceTree(Store& store, Inode root);
  // Apart from the listener of the first tree.
  Status listen_inside(ChangeListener* listener) override { return store_.listen(Tree::kNamespace, listener); }

  Store& store_;
};

}  // namespace warren
