// Nodes without a name that some process may still have open: wr_orphan.
//
// Each row says who keeps the node: the process with a seat at the agent's log (db/wal_signals.h), or, where there are
// no seats, one with this identity. Who no longer has it open passes it on to the next seat, and the last one removes
// it. A seat without a process, or a process that is dead, was left by a crash. Why: docs/design/store.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "os/processes/process.h"

namespace warren {

struct Orphan {
  Inode node;
  // An overlay's base still has names for it: it belongs to no process and is never abandoned.
  bool is_kept = false;
  std::uint32_t seat = 0;   // 0: see `process`
  ProcessIdentity process;  // without a seat
};

// Use it inside a transaction. Only where our tables exist and may be written.
class Orphans {
 public:
  static Result<std::unique_ptr<Orphans>> open(Database& database);

  Status give(Inode node, std::uint32_t seat);  // seat 0: to this process, by its identity
  Status keep(Inode node);                      // see Orphan::is_kept
  Status erase(Inode node);
  Result<std::optional<Orphan>> find(Inode node);
  Result<std::vector<Orphan>> list();

  // Whether somebody other than this connection keeps it.
  bool is_kept_elsewhere(const Orphan& orphan) const;

 private:
  Database* database_ = nullptr;
  ProcessIdentity self_;
  Statement add_;
  Statement erase_;
  Statement find_;
  Statement list_;
};

}  // namespace warren
