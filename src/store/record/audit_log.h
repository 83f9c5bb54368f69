// The audit trail of an agent file: wr_audit, one row for each event, chained by keyed hashes.
//
// An event is stored in the transaction of the operation that it is about, so that both survive a crash or neither:
// whoever carries out an operation holds an AuditLog::Scope with its event, and the store takes the event when a
// transaction of that thread commits. In a batch, events are kept in memory and chained and written with the batch.
// What changes nothing in this file (a read, a refusal, a change in another mount) gets a transaction of its own, or
// waits for the next one (defer). A transaction that only prepares the operation (base/side_change.h) does not take it.
//
// Several processes append to one chain: the last row is read in the transaction that adds the next one, and SQLite
// lets one of them write at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"
#include "db/statement.h"
#include "store/record/audit_row.h"

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

// Who uses those parts of the file that no view is in front of: keys and tool calls.
struct AuditSource {
  std::string agent;
  std::string door;
  std::string space;
  std::string session;
  std::string trace;
  bool records_reads = false;
};

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
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // From now on events can be appended. Makes the table if it is missing, and gets the keys, so that an operation does
  // not fail for want of them later. kReadOnly; kCorrupt if the table is not as Warren makes it, since events might
  // then be lost, or changes with them. `agent` is for events that nobody in particular causes.
  Status enable(LoadAuditKeys load, std::string agent = {});
  bool is_enabled() const { return is_enabled_; }
  // kCorrupt as above. Also for an agent that is open read-only.
  Status check_table();

  // From now on, what is done to keys and tool calls is recorded. Once, before the store is used.
  void set_source(AuditSource source) { source_ = std::move(source); }
  const std::optional<AuditSource>& source() const { return source_; }
  AuditEvent event_of_source(std::string_view op, std::string_view path) const;

  // An unknown value, of a later version or of a stranger, counts as kReads.
  Result<AuditLevel> level();
  Result<bool> is_level_known();
  // Also appends the event, in the same transaction.
  Status set_level(AuditLevel level, AuditEvent event);

  // Carries out an operation on the record: its event is stored with its change, or right after it if it made none in
  // this file. If it fails, that is recorded instead. It is not tried while events cannot be stored.
  template <class Call>
  auto change(AuditEvent event, const Call& call) -> decltype(call());
  // The same for keys and tool calls; only the call if they are not recorded.
  template <class Call>
  auto change_of_source(std::string_view op, std::string_view path, std::optional<std::uint64_t> size_bytes,
                        const Call& call) -> decltype(call());
  // Records that keys or tool calls were read, if that is to be recorded.
  Status note_read_of_source(std::string_view op, std::string_view path);

  // Appends in a transaction of its own, or in the running one of this thread. In a thread that must not wait
  // (base/no_wait.h) events may be deferred instead.
  Status append(std::vector<AuditEvent> events);
  // Appends with the next transaction, after a second, or when many have gathered. For what is frequent and changes
  // nothing.
  Status defer(std::vector<AuditEvent> events);
  // Records what the running transaction does, where that is known only meanwhile, such as the removal of what has
  // expired. If it is rolled back, nothing happened. Nothing if nothing is recorded.
  void note(std::string_view op, std::string_view path, std::string_view door,
            std::optional<std::string> to = std::nullopt);
  // Appends what is deferred. As long as that fails, nothing else should be done that needs to be recorded.
  Status flush();
  // The reason why events cannot be stored now, if they cannot; tries again. For what must not be done unrecorded and
  // changes nothing in this file.
  Status check();

  // Reading. An agent that never had a trail has an empty one.
  Result<AuditHead> head();
  Result<std::vector<StoredAuditRow>> read_after(std::int64_t seq, std::size_t max);
  // A part of /audit/events.jsonl. O(log rows + length).
  Result<std::string> read_lines(std::uint64_t offset, std::size_t length);

  // Whether this object has appended a row that is committed.
  bool has_appended() const { return has_appended_; }

  // For Store, under the database's lock.
  Status before_commit();
  void change_done();
  void change_undone() { noted_.clear(); }
  void after_commit();
  void after_rollback();
  // Whether rows were committed since the last call.
  bool take_news();

 private:
  Status prepare();  // the statements, if there is a table
  Result<bool> has_table();
  Status restore_table();
  Status settle(AuditEvent event, bool is_taken, const Error* error);
  void flush_in_time();
  void take_events_of_thread();
  void take_noted();
  void take_deferred();
  void return_deferred();
  void add_pending(AuditEvent event);
  Status write_pending();
  Status write_row(AuditHead& head, AuditEvent& event, const AuditKey& key);
  Result<AuditHead> next_to(const AuditHead& ours);
  Result<const AuditKey*> key_after(AuditHead& head);
  Status use_keys(AuditKeys keys);
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
  std::string agent_;
  std::optional<AuditSource> source_;

  // Under the database's lock.
  AuditKeys keys_;
  std::map<std::string, HmacSha256> hmacs_;  // by the key's id
  std::deque<AuditEvent> pending_;           // of changes that are done, in the open transaction or batch
  std::vector<AuditEvent> noted_;            // of the running transaction
  std::string foreign_key_;                  // of the last row: not ours, as far as we know
  std::uint64_t seen_epoch_ = 0;
  std::vector<AuditEvent> taken_;  // deferred ones in the open transaction or batch
  bool has_written_ = false;       // rows in the open transaction or batch
  AuditHead written_;              // the last of them
  AuditHead committed_;            // the last row that this object has committed
  bool has_news_ = false;
  std::atomic<bool> has_appended_ = false;
  Statement insert_;
  Statement head_;
  Statement after_;
  Statement end_;
  Statement hash_;

  std::mutex deferred_mutex_;
  std::vector<AuditEvent> deferred_;
  std::int64_t deferred_since_ns_ = 0;
  std::optional<Error> failure_;  // of the last attempt to store them
  std::condition_variable deferred_changed_;
  bool is_ending_ = false;
  std::thread flusher_;  // without grouped commits, from the first deferred event on
};

template <class Call>
auto AuditLog::change(AuditEvent event, const Call& call) -> decltype(call()) {
  Status ready = check();
  if (!ready.ok()) return std::move(ready).take_error();
  bool is_taken = false;
  auto result = [&] {
    Scope scope(*this, {event});
    auto done = call();
    is_taken = scope.is_taken();
    return done;
  }();
  Status recorded = settle(std::move(event), is_taken, result.ok() ? nullptr : &result.error());
  if (result.ok() && !recorded.ok()) return std::move(recorded).take_error();
  return result;
}

template <class Call>
auto AuditLog::change_of_source(std::string_view op, std::string_view path, std::optional<std::uint64_t> size_bytes,
                                const Call& call) -> decltype(call()) {
  if (!source_) return call();
  AuditEvent event = event_of_source(op, path);
  event.size_bytes = size_bytes;
  return change(std::move(event), call);
}

}  // namespace warren
