// The audit trail of an agent file: wr_audit, one row for each event, chained by keyed hashes.
//
// An event is stored in the transaction of the operation that it is about, so that both survive a crash or neither:
// whoever carries out an operation holds an AuditLog::Scope with its event, and the store takes the event when a
// transaction of that thread commits. In a batch, events are kept in memory and chained and written with the batch.
// What changes nothing in this file (a read, a refusal, a change in another mount) gets a transaction of its own, or
// waits for the next one (defer).
//
// Several processes append to one chain: the last row is read in the transaction that adds the next one, and SQLite
// lets one of them write at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"
#include "db/statement.h"
#include "store/audit_row.h"

namespace warren {

class Journal;

// What an agent's switch says (wr_meta, `audit`). Without one, kDefault holds.
enum class AuditLevel : std::uint8_t {
  kDefault,  // namespace doors and `run` record
  kOff,      // nothing is recorded
  kOn,       // every door records changes and refusals; namespace doors reads too
  kReads,    // every door records reads too
};
std::string_view name_of(AuditLevel level);  // "default", "off", "on", "reads"

// The end of the chain.
struct AuditHead {
  std::int64_t seq = 0;  // 0: the trail is empty
  std::uint64_t end_bytes = 0;
  std::string key;
  AuditHash hash{};
};

// A row as it is stored, which need not be valid.
struct StoredAuditRow {
  AuditRow row;
  std::string problem;  // a value that no row of ours has; "" if there is none
};

// Thread-safe.
class AuditLog {
 public:
  // The events of what this thread does next. If a transaction of the thread commits in this log's database meanwhile,
  // it takes them along. They do not nest for one log.
  class Scope {
   public:
    Scope(AuditLog& log, std::vector<AuditEvent> events);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    bool is_taken() const { return is_taken_; }

   private:
    friend class AuditLog;
    AuditLog& log_;
    std::vector<AuditEvent> events_;
    bool is_taken_ = false;
    Scope* outer_;
  };

  // The journal is null for a database that is open read-only.
  AuditLog(Database& database, Journal* journal, Clock& clock);
  ~AuditLog();

  // From now on events can be appended. Makes the table if it is missing, and gets the keys, so that an operation does
  // not fail for want of them later. kReadOnly.
  Status enable(LoadAuditKeys load);
  bool is_enabled() const { return is_enabled_; }

  Result<AuditLevel> level();
  // Also appends the event, in the same transaction.
  Status set_level(AuditLevel level, AuditEvent event);

  // Appends in a transaction of its own, or in the running one of this thread. In a thread that must not wait
  // (base/no_wait.h) events may be deferred instead.
  Status append(std::vector<AuditEvent> events);
  // Appends with the next transaction, after a second, or when many have gathered. For what is frequent and changes
  // nothing.
  Status defer(std::vector<AuditEvent> events);
  // Appends what is deferred. As long as that fails, nothing else should be done that needs to be recorded.
  Status flush();
  // The reason why events cannot be stored now, if they cannot; tries again. For what must not be done unrecorded and
  // changes nothing in this file.
  Status check();

  // Reading. An agent that never had a trail has an empty one.
  Result<AuditHead> head();
  Result<std::vector<StoredAuditRow>> read_after(std::int64_t seq, std::size_t max);
  // The newest `count` rows, oldest first.
  Result<std::int64_t> seq_before_last(std::int64_t count);
  // A part of /audit/events.jsonl. O(log rows + length).
  Result<std::string> read_lines(std::uint64_t offset, std::size_t length);

  // Whether this object has appended a row that is committed.
  bool has_appended() const { return has_appended_; }

  // For Store, under the database's lock.
  Status before_commit();
  void change_done();
  void after_commit();
  void after_rollback();
  // Whether rows were committed since the last call.
  bool take_news();

 private:
  Status prepare();  // the statements, if there is a table
  Result<bool> has_table();
  void take_events_of_thread();
  void take_deferred();
  void return_deferred();
  void add_pending(AuditEvent event);
  Status write_pending();
  Status write_row(AuditHead& head, AuditEvent event, const AuditKey& key);
  Result<const AuditKey*> key_after(AuditHead& head);
  Status reload_keys();
  HmacSha256& hmac_of(const AuditKey& key);
  Result<AuditHead> read_head();
  StoredAuditRow read_row(const Rows& rows) const;
  Result<std::uint64_t> end_of(std::int64_t seq);

  Database& database_;
  Journal* journal_;
  Clock& clock_;
  bool is_enabled_ = false;
  bool is_prepared_ = false;
  LoadAuditKeys load_;

  // Under the database's lock.
  AuditKeys keys_;
  std::map<std::string, HmacSha256> hmacs_;  // by the key's id
  std::deque<AuditEvent> pending_;           // of changes that are done, in the open transaction or batch
  std::vector<AuditEvent> taken_;            // deferred ones in the open transaction or batch
  bool has_written_ = false;                 // rows in the open transaction or batch
  bool has_news_ = false;
  std::atomic<bool> has_appended_ = false;
  Statement insert_;
  Statement head_;
  Statement after_;
  Statement end_;

  std::mutex deferred_mutex_;
  std::vector<AuditEvent> deferred_;
  std::int64_t deferred_since_ns_ = 0;
  std::optional<Error> failure_;  // of the last attempt to store them
};

}  // namespace warren
