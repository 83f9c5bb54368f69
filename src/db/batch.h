// A batch: shared changes that are collected in one open SQLite transaction and committed together.
//
// Batch does the bookkeeping: whether a batch is open and when it is due, how much its callers keep in memory until it
// ends, the disk space reserved for it, how to repeat it (Redo), and why it cannot be committed. It shows other
// processes through WalSignals that a batch is open. It does not know Database, which owns it and begins, commits and
// rolls back the SQLite transaction. The store reports rows that it keeps back, and its keeper ends batches in time.
// Why batches exist: docs/design/db.md.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "db/redo.h"

namespace warren {

class Statement;
class WalSignals;

// Space in the -wal file.
struct LogState {
  std::int64_t page_bytes = 0;
  std::int64_t pages = 0;        // after the newest commit
  bool is_checkpointed = false;  // all of them are in the database file too
};

// Who may use the last mebibyte of the disk: changes that make room, so that a full disk can be emptied.
enum class Room { kUsual, kLast };

// Used under the database's lock, except due_at(), request_end() and has_failed().
class Batch {
 public:
  // Signals may be null, as for a database in memory, and outlive the batch.
  void set_signals(WalSignals* signals) { signals_ = signals; }

  bool is_open() const { return is_open_; }
  // Large or old enough to be committed, or its end was requested.
  bool is_due() const;

  // For the thread that ends batches in time. nullopt if none is open.
  std::optional<std::chrono::steady_clock::time_point> due_at() const;
  void request_end() { end_requested_ = true; }

  // A change that is kept in memory, of about `bytes`, until the batch ends. If its transaction is not committed, the
  // batch is rolled back, as for a change that SQLite knows.
  void note_kept_back(std::uint64_t bytes);
  // `changes` kept-back rows are now in SQLite. They were counted when they were kept, and are not changes of the
  // running transaction.
  void note_written_back(std::int64_t changes) { kept_back_ -= changes; }
  std::int64_t kept_back() const { return kept_back_; }
  // Bytes given to SQLite directly.
  void add_bytes(std::uint64_t bytes) { bytes_ += bytes; }

  // Reserves disk space for a change of about `bytes`, in the log and later in the file. False if the disk lacks it.
  Result<bool> reserve(std::uint64_t bytes, Room room, const LogState& log, Statement& free_page_count);
  // For a change that must be kept though reserve() has refused it. False if too much was kept already.
  bool keep_without_room(std::uint64_t bytes);
  void drop_reservations();
  // Little of the measured space is left to reserve. A unit, which cannot make more, should not begin like this.
  bool is_tight() const;

  // The statements run in the open batch.
  Redo& redo() { return redo_; }
  // Why the open batch could not be committed when that was last tried. Its changes are kept, and nothing new should be
  // added.
  const std::optional<Error>& failure() const { return failure_; }
  bool has_failed() const { return has_failed_; }  // for any thread
  int failures() const { return failures_; }       // how often it could not be committed

  // For Database, around the SQLite transaction.
  void opened();
  void closed();
  void failed(const Error& why);  // to commit; it stays open, and is due again a little later

 private:
  Result<std::uint64_t> measure_headroom(Room room, const LogState& log, Statement& free_page_count) const;

  WalSignals* signals_ = nullptr;
  bool is_open_ = false;
  std::uint64_t bytes_ = 0;
  std::int64_t kept_back_ = 0;            // a running count: only differences matter
  std::uint64_t reserved_bytes_ = 0;      // by the open batch
  std::uint64_t headroom_bytes_ = 0;      // that it may reserve before the disk is measured again
  std::uint64_t without_room_bytes_ = 0;  // kept in the open batch though there was no room
  Room measured_for_ = Room::kUsual;
  Redo redo_;
  std::optional<Error> failure_;
  int failures_ = 0;
  std::atomic<bool> has_failed_ = false;
  std::atomic<std::int64_t> due_ns_ = 0;  // 0: none is open
  std::atomic<bool> end_requested_ = false;
};

}  // namespace warren
