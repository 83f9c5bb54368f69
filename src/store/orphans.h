// Nodes without a name that some process still has open: wr_orphan.
//
// Each row names the process that keeps the node, so that the next process to open the agent can distinguish a
// file in use from one left by a crash.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "os/process.h"

namespace warren {

// Use it inside a transaction. Only where our tables exist and may be written.
class Orphans {
 public:
  static Result<std::unique_ptr<Orphans>> open(Database& database);

  Status add(Inode node);   // kept by this process
  Status keep(Inode node);  // an overlay's base still has names for it: belongs to no process, never abandoned
  Status erase(Inode node);
  Result<std::vector<Inode>> list_abandoned();  // those whose process is certainly dead

 private:
  ProcessIdentity self_;
  Statement add_;
  Statement erase_;
  Statement list_;
};

}  // namespace warren
