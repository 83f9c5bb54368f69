// A SQLite VFS that combines writes to the log into few large ones.
//
// SQLite writes each page of a commit to the log with two small system calls: twenty for a commit of ten
// pages. This VFS buffers them until SQLite asks for a sync, which comes before the commit is visible to anyone,
// so an error still fails the right commit and nobody reads pages that are not written yet.
// Why this is safe, step by step: docs/design/db.md.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

struct sqlite3_vfs;

namespace warren {

// What the sync of a commit does after the log is written. (The syncs around a checkpoint always reach
// the disk: without them a power cut could damage the file.)
enum class CommitSync { kDisk, kSystem };

// One per connection, on top of SQLite's own VFS or a test's. Outlives the connection that uses it.
class WalVfs {
 public:
  // `base`: the name of the underlying VFS, or null for the default.
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
