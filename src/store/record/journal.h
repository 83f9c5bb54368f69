// wr_journal: one row for each of our transactions that changed the agent, saying what changed.
//
// It answers "what changed since" for derived data: the mount's kernel caches,
// the search index, watchers. Each reader keeps its own position. Changes by other programs do not
// appear; if others have committed more often than there are new rows, everything may have changed. Only the
// newest limits::kJournalRows rows are kept; for a reader further behind, everything may have changed too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "store/schema.h"

namespace warren {

// Stored as the first byte of each record in wr_journal.changes. Never reuse a value.
enum class ChangeKind : std::uint8_t {
  kEntry = 'e',       // a name in directory `inode` has another node now, or none
  kData = 'd',        // content or size of `inode`
  kAttributes = 'a',  // mode, owner, times, xattrs of `inode`
  kKey = 'k',         // the key-value pair `name`
  kToolCall = 't',    // the tool call with id `inode`
  kAudit = 'u',       // rows were added to the audit trail
  kBase = 'b',        // an apply to the base or an undo in it has ended: what shows of the base may be another
  kEverything = '*',  // too much for one row
};

struct Change {
  ChangeKind kind = ChangeKind::kEverything;
  std::uint64_t id = 0;  // inode or tool call
  std::string name;      // entry or key

  bool operator==(const Change&) const = default;
};

// Through which door an open store is used, and from which side ("fs", "kernel"; vfs/caller.h). Empty: Warren itself.
// Whoever can write the file can write anything here; only the audit trail proves who it was.
struct JournalAuthor {
  std::string door;
  std::string space;
};

struct JournalRow {
  std::int64_t seq = 0;
  std::int64_t at_us = 0;
  std::int64_t origin = 0;                    // which open store wrote it; see Journal::origin
  std::optional<std::int64_t> commit_number;  // see Database::number_commits
  std::vector<Change> changes;
  JournalAuthor author = {};
};

// Collects the changes of the running transaction. Use it under the database's lock.
class Journal {
 public:
  // For writing, the file has all columns of the schema. For reading, it may be of an older Warren.
  static Result<std::unique_ptr<Journal>> open(Database& database, const Schema& schema, Clock& clock,
                                               JournalAuthor author = {});

  void note_entry(Inode parent, std::string_view name);
  void note_data(Inode node);
  void note_attributes(Inode node);
  void note_key(std::string_view key);
  void note_tool_call(std::int64_t id);
  void note_audit();
  void note_base();
  void note_everything();                 // for changes that cannot be listed
  void note_row() { wants_row_ = true; }  // a row even without changes: this commit is one of ours
  bool has_notes() const { return !pending_.empty(); }

  // Called when the outermost transaction ends. write() does nothing if nothing was noted.
  Status write();
  bool has_row() const { return has_row_; }  // of this transaction, written already
  void discard() {
    pending_.clear();
    overflowed_ = false;
    wants_row_ = false;
    last_noted_ = 0;
  }

  // The notes of the running change are dropped if it is undone.
  void begin_change() { before_change_ = {pending_.size(), last_noted_, overflowed_}; }
  void undo_change() {
    pending_.resize(std::min(pending_.size(), before_change_.bytes));
    last_noted_ = before_change_.last_noted;
    overflowed_ = before_change_.overflowed;
  }

  // The nodes noted since forget_nodes(), which is called when they are stored.
  const std::unordered_set<std::uint64_t>& nodes() const { return nodes_; }
  void forget_nodes() {
    nodes_.clear();
    has_row_ = false;
  }

  // Rows after `seq`, oldest first, at most `max`. nullopt: some of them were trimmed already. A row that cannot be
  // decoded says that everything may have changed.
  Result<std::optional<std::vector<JournalRow>>> read_after(std::int64_t seq, std::size_t max);
  Result<std::int64_t> last_seq();
  Result<std::int64_t> last_change_seq();  // of a row that says more than that the audit trail grew

  // A random number for this open store, so that a reader can skip its own changes.
  std::int64_t origin() const { return origin_; }

 private:
  Journal(Database& database, Clock& clock, JournalAuthor author);
  void note(ChangeKind kind, std::uint64_t id, std::string_view name);

  Database& database_;
  Clock& clock_;
  const JournalAuthor author_;
  std::int64_t origin_;
  std::string pending_;
  std::unordered_set<std::uint64_t> nodes_;
  std::size_t last_noted_ = 0;  // where the newest record in pending_ begins, to drop repetitions
  bool overflowed_ = false;
  bool wants_row_ = false;
  bool has_row_ = false;
  struct {
    std::size_t bytes = 0;
    std::size_t last_noted = 0;
    bool overflowed = false;
  } before_change_;
  Statement insert_;
  Statement trim_;
  Statement select_;
  Statement first_;
  Statement last_;
  Statement last_change_;
};

// kCorrupt if the bytes are not a list of records.
Result<std::vector<Change>> decode_changes(Bytes encoded);

}  // namespace warren
