// Gathers what SQLite writes to its log into few large writes.
//
// SQLite writes each page of a commit to the log with two small system calls; a commit of ten pages is
// twenty. Here they are kept until SQLite asks for a sync, which it does before it lets anyone see the
// commit, so an error still reaches the commit it belongs to and nobody reads what is not written yet.
// Why this is safe, step by step: docs/design/db.md.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

struct sqlite3_vfs;

namespace warren {

// What the sync of a commit does once the log is written. (The syncs around a checkpoint always go to
// the disk: without them a power cut could damage the file.)
enum class CommitSync { kDisk, kSystem };

// One per connection, over SQLite's own or a test's. Outlives the connection that uses it.
class WalVfs {
 public:
  // `base`: the name of the one below, or null for the default.
  static Result<std::unique_ptr<WalVfs>> open(const char* base, CommitSync commit_sync);
  ~WalVfs();
  WalVfs(const WalVfs&) = delete;
  WalVfs& operator=(const WalVfs&) = delete;

  const char* name() const { return name_.c_str(); }
  sqlite3_vfs& base() const { return *base_; }
  CommitSync commit_sync() const { return commit_sync_; }

 private:
  WalVfs(sqlite3_vfs& base, CommitSync commit_sync);

  std::string name_;
  sqlite3_vfs* base_;
  CommitSync commit_sync_;
  std::unique_ptr<sqlite3_vfs> registered_;
};

}  // namespace warren
