// Signals between processes that have the same agent open: locks on a few bytes of the -wal file.
//
// A process that has a batch open (several changes in one uncommitted transaction) locks the batch byte. Before
// another process reads or writes, it checks that byte; if it is locked, it knocks, by locking the knock byte and
// touching the file, and waits until the batch is committed. A process that caches what is in the file (a mount: the
// kernel's caches) locks the listen byte; while any other process listens, every commit touches the file. (A write to
// the log alone is not a signal: others see a commit only some time later.) A process that may have nodes open takes a
// seat: a number, and the lock of that byte. Who removes a node's last name finds the seats of those who may still have
// it open. Every connection locks the use byte. The kernel releases the locks of a process that dies, so a crash leaves
// none. SQLite never locks the -wal file itself. The whole protocol: docs/design/db.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// One per connection; used under its database's lock, except wal_fd().
class WalSignals {
 public:
  // Null if there is no -wal file or we may not write it: then there is nobody to signal.
  static std::unique_ptr<WalSignals> open(const std::string& wal_path);

  // Whether a connection of ours uses this log. False if there is none.
  static bool is_in_use(const std::string& wal_path);

  // While a log is marked (db/log_owner.h). False if another process does not release it.
  bool lock_mark();
  void unlock_mark();

  // For the process that has the batch.
  void lock_batch();
  void unlock_batch();
  bool is_knocked();  // another process waits for its turn

  // For the other processes.
  bool is_batch_locked_elsewhere();
  // Checking is a system call, and a read from memory costs little more; so a read checks at most every 200 µs. Returns
  // false without checking if this connection checked more recently.
  bool is_batch_locked_elsewhere_lately();
  void knock();
  // Waits until the other process has committed its batch. False on timeout: it hangs, or was stopped.
  bool knock_and_wait();
  void stop_knocking();

  // Commit notification.
  void listen();
  bool has_listeners();  // other than us
  void notify_listeners();

  // The lowest number that nobody has, 1 or more, until leave_seat(); 0 if there is none.
  std::uint32_t take_seat();
  void leave_seat();
  // The lowest seat above `seat` that another connection has; 0: none.
  std::uint32_t find_seat_after(std::uint32_t seat);

  // For Database::number_commits: a number, below kCountBases, that all connections to this log share as long as one of
  // them is open.
  enum class CountUse { kRead, kWrite };
  std::optional<std::int64_t> find_count_base();
  void hold_count_base(std::int64_t base, CountUse use);
  bool has_other_writer();  // that holds one
  static constexpr std::int64_t kCountBases = std::int64_t{1} << 59;

  int wal_fd() const { return wal_.get(); }

 private:
  explicit WalSignals(Fd wal) : wal_(std::move(wal)) {}

  Fd wal_;
  std::uint32_t seat_ = 0;
  bool is_knocking_ = false;
  std::chrono::steady_clock::time_point knocked_at_;
  std::chrono::steady_clock::time_point checked_at_;
};

}  // namespace warren
