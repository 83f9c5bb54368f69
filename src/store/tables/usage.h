// How much of its quota an agent has used (wr_meta: quota_bytes, quota_inodes, used_bytes, used_inodes).
//
// Bytes are the sizes of files and symlinks, holes included; inodes are all nodes, including the
// root. An agent without a quota keeps no count and pays almost nothing. Every Warren process
// updates the counts in the same transaction as the change; changes by AgentFS programs are counted
// at the next open.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "db/database.h"

namespace warren {

struct Quota {
  std::optional<std::uint64_t> bytes;
  std::optional<std::uint64_t> inodes;

  bool operator==(const Quota&) const = default;
};

struct UsedSpace {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;

  bool operator==(const UsedSpace&) const = default;
};

// Use it under the database's lock.
class Usage {
 public:
  // Counts every node when the agent has a quota and may be written: O(nodes).
  static Result<std::unique_ptr<Usage>> open(Database& database, bool has_extensions);

  // In a write transaction. kNoSpace if it would exceed the quota; then nothing is counted. A negative
  // charge never fails for lack of space. If the change that was charged fails, the caller must
  // give the charge back, unless the whole transaction is rolled back.
  Status charge(std::int64_t bytes, std::int64_t inodes);

  Status write();  // before the outermost commit
  void forget() {  // after a rollback
    stale_ = true;
    dirty_ = false;
  }

  // What the running change of a batch has charged is given back if it is undone.
  void begin_change() { before_change_ = {used_, dirty_, transaction_}; }
  void undo_change() {
    bool was_loaded_since = transaction_ != before_change_.transaction;
    if (was_loaded_since) return forget();
    used_ = before_change_.used;
    dirty_ = before_change_.dirty;
  }

  Result<Quota> quota();
  Status set_quota(const Quota& quota);  // counts current use; a quota below it is allowed
  Result<UsedSpace> used();              // as counted for the quota; zeros without one
  Result<UsedSpace> measure();           // counts every node: O(nodes)

 private:
  explicit Usage(Database& database) : database_(database) {}
  Status prepare();
  Status refresh();
  Status load();
  Status recount();
  Result<std::optional<std::uint64_t>> find_count(std::string_view key);
  Status put_count(std::string_view key, const std::optional<std::uint64_t>& value);

  Database& database_;
  bool has_extensions_ = false;
  bool stale_ = true;
  bool dirty_ = false;               // charged in transaction_ and not yet written
  std::uint64_t transaction_ = 0;    // in which the counts are known to be current
  std::uint64_t foreign_epoch_ = 0;  // of the file when they were loaded
  Quota quota_;
  UsedSpace used_;
  struct {
    UsedSpace used;
    bool dirty = false;
    std::uint64_t transaction = 0;
  } before_change_;
  Statement get_;
  Statement put_;
  Statement remove_;
};

}  // namespace warren
