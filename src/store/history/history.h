// Checkpoints of an agent file: its state at earlier moments, kept in the file itself (docs/design/history.md).
//
// Taking one costs what has changed since the last, as long as the journal lists every change. If another program has
// written to the file, or that cannot be excluded, all rows are compared once. The first checkpoint copies everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fs/types.h"
#include "store/history/mounted_rows.h"
#include "store/history/past_tables.h"
#include "store/store.h"

namespace warren {

struct RecodedFiles;

// Kept of each kind that the operator does not ask for: at intervals, by signals, after tool calls, by the agent.
inline constexpr std::size_t kAutomaticCheckpoints = 100;

struct Checkpoint {
  std::int64_t id = 0;  // counts up; never used twice
  std::string name;
  std::int64_t at_us = 0;
  std::string cause;  // "asked", "before restore", …: for people

  bool operator==(const Checkpoint&) const = default;
};

// "NAME@ID", as events of the audit trail and /state/checkpoints have it.
std::string label_of(const Checkpoint& checkpoint);

// What a checkpoint stored that the one before it did not have.
struct CheckpointSize {
  std::uint64_t nodes = 0;
  std::uint64_t names = 0;
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;    // of content
  std::uint64_t mounted = 0;  // values of what is mounted
  std::uint64_t mounted_bytes = 0;
};

// What differs between two checkpoints, or between one and the agent as it is.
struct PastChanges {
  bool is_everything = false;  // unknown: anything may differ
  std::vector<Inode> nodes;    // sorted
  std::vector<std::pair<Inode, std::string>> names;
  std::vector<std::string> keys;
  bool has_base_changes = false;  // rows about the base: whiteouts, lost links
};

struct PruneRule {
  std::optional<std::uint64_t> keep;      // never the newest so many
  std::optional<std::int64_t> before_us;  // only those taken before
};

// kInvalid unless the text can be a checkpoint's name: 1 to 255 bytes of printable text without '/' and '@', not only
// digits, which would be an id.
Status check_checkpoint_name(std::string_view name);

// Cheap to make; the store outlives it. Thread-safe like the store. Everything that changes something is one
// transaction, and is on the record if the store's audit trail is enabled.
class History {
 public:
  explicit History(Store& store) : store_(store), database_(store.database()) {}

  // `covered` are mounts that the checkpoint covers (store/history/mounted_rows.h), here and below.
  // kReadOnly; kInvalid within a unit that has changed something; kConflict as MountedRows::cover.
  Result<Checkpoint> take(std::string_view name, std::string_view cause, const std::vector<CoveredMount>& covered = {});

  // For one that the operator did not ask for. The oldest of the same cause are removed if there are too many, or if
  // what only checkpoints keep is more than the agent's quota.
  Result<Checkpoint> take_automatic(std::string_view name, std::string_view cause,
                                    const std::vector<CoveredMount>& covered = {});

  Result<std::vector<Checkpoint>> list();  // oldest first
  // By id, or the newest of that name. kNotFound.
  Result<Checkpoint> get(std::string_view which);
  Result<CheckpointSize> measure(std::int64_t id);
  Result<std::vector<std::string>> list_covered(std::int64_t id);  // mounts, sorted
  // Whether the journal, or a copy of what is mounted, has changes that no checkpoint has, of what checkpoints cover.
  // Another program's are not in it.
  Result<bool> has_changed();

  // Makes the agent exactly what it was, after a checkpoint of what it is now, which is returned: keys, files, and of
  // an agent with a base everything it has recorded about it. The trail of tool calls stays. kCorrupt if the checkpoint
  // is damaged; nothing is changed then.
  // kBusy while an apply of the agent is interrupted. `covered` is for the checkpoint before; of what is mounted, only
  // the rows are restored. Files are encrypted as the patterns of now say (encrypt_by_patterns), which `encrypted`
  // reports: those whose key is missing stay as they were.
  Result<Checkpoint> restore(std::int64_t id, const std::vector<CoveredMount>& covered = {},
                             RecodedFiles* encrypted = nullptr);

  Status remove(std::int64_t id);
  Result<std::vector<Checkpoint>> prune(const PruneRule& rule);

  // kNotFound. `to`: nullopt for now.
  Result<PastChanges> changes(std::int64_t from, std::optional<std::int64_t> to);

  // Of nodes that were changed, and of the directories that names were changed in: all directories above them, at any
  // time. A comparison of two trees need not look elsewhere.
  Result<std::vector<Inode>> list_touched_dirs(const PastChanges& changed);

  // Whether the rows kept for the newest state are what the tables have. For tests, right after a checkpoint.
  Result<bool> is_exact();

 private:
  // How far the kept versions follow the agent.
  struct Position {
    std::int64_t version = 0;
    std::int64_t seq = 0;            // of the journal
    std::int64_t commit_number = 0;  // of the commit that wrote this
  };
  struct Dirty {
    bool is_everything = false;
    std::vector<std::uint64_t> nodes;
    std::vector<std::pair<std::uint64_t, std::string>> names;
    std::vector<std::string> keys;
  };

  Result<bool> exists();
  Result<bool> make_tables();
  Result<std::optional<Position>> find_position();
  Status set_position(std::int64_t version);
  Result<Dirty> find_dirty(const std::optional<Position>& position);
  Status add_nodes_of_names(Dirty& dirty);
  Status follow(const Dirty& dirty, std::int64_t version);
  Result<Checkpoint> add(std::string_view name, std::string_view cause, const std::vector<CoveredMount>& covered);
  Status check_exists(std::int64_t id);
  Status put_back(std::int64_t id, std::int64_t version);
  Status check_put_back(std::int64_t id);
  Result<std::string> keep_open_nodes(std::int64_t id);
  Status revive_open_nodes(std::int64_t id);
  Result<PastChanges> list_changed(std::int64_t from, std::optional<std::int64_t> to);
  Status note_changed(const PastChanges& changed);
  Status encrypt_restored(std::int64_t version, RecodedFiles& done);
  Status remove_in(const Checkpoint& checkpoint);
  Status remove_older(const Checkpoint& newest);
  Result<std::uint64_t> measure_past();
  Status forget_if_empty();
  Result<std::int64_t> last_version();
  std::string json_list(const std::vector<std::uint64_t>& nodes) const;

  Store& store_;
  Database& database_;
};

// Whether the file has, or had, a checkpoint.
Result<bool> has_history(Database& database);

// Makes every table that checkpoints cover appear as it was, on this connection only, which must be read-only. Returns
// when the checkpoint was taken, in microseconds. kNotFound.
Result<std::int64_t> show_checkpoint(Database& database, std::int64_t id);

}  // namespace warren
