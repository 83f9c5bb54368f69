// wr_mounted: copies of what is mounted in the namespace, so that checkpoints keep it like rows of the agent's own.
//
// Stores and working memory are copied in before a checkpoint is taken (agent/checkpoints/mounted_state.h). Between
// checkpoints the rows are only what was seen last. A row with an empty key says that the mount is covered: a
// checkpoint without that row for a mount says nothing about it. The table is made with the first row.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "db/statement.h"
#include "store/store.h"

namespace warren {

struct MountedRow {
  std::string key;   // of a value; of a file, its path in the mount without the leading slash
  std::string hash;  // SHA-256 of the value, in hexadecimal
  std::uint64_t size = 0;
  std::optional<std::int64_t> expires_at_ms;
  std::string attributes;  // of a file (agent/checkpoints/working_copy.h); empty for a value of a store

  bool operator==(const MountedRow&) const = default;
};

// A mount whose rows were made what it has: `digest` is MountedRows::digest at that moment.
struct CoveredMount {
  std::string path;
  std::string digest;
};

// Use it in a transaction, but for prepare(). The store outlives it. On a store that shows a checkpoint, it reads what
// the checkpoint has, and has no tokens.
class MountedRows {
 public:
  explicit MountedRows(Store& store) : store_(store) {}

  Result<std::vector<std::string>> list_covered();  // sorted
  // Exactly these from now on. kConflict if the rows of one are not what its digest says.
  Status cover(const std::vector<CoveredMount>& mounts);

  Result<std::vector<MountedRow>> list(std::string_view mount);  // sorted by key
  // kCorrupt if it is not what its hash says.
  Result<std::optional<std::string>> find_value(std::string_view mount, std::string_view key);
  // What the store called the value's version when it was copied; nothing where that is not known.
  Result<std::map<std::string, std::string>> list_tokens(std::string_view mount);
  Result<std::string> digest(std::string_view mount);

  Status put(std::string_view mount, const MountedRow& row, Bytes value, std::string_view token);
  Status set_token(std::string_view mount, const MountedRow& row, std::string_view token);  // if it has this hash
  Status remove(std::string_view mount, std::string_view key);

  // Whether rows were put or removed since forget_changes, by us: then a checkpoint compares all of them.
  Result<bool> has_changes();
  Status forget_changes();

 private:
  Result<bool> exists();
  Status make_table();
  Status prepare_changes();
  Status note_change();

  Store& store_;
  bool exists_ = false;
  bool is_prepared_ = false;
  bool is_noted_ = false;  // by this object
  Statement put_;
  Statement set_token_;
  Statement remove_;
};

// Adds a row's key, hash and token to what MountedRows::digest is made of.
std::string digest_line(const MountedRow& row, std::string_view token);

// For fsck (WR-55): how many rows of wr_mounted, or of wr_past_mounted, are not valid.
enum class MountedTable { kLive, kPast };
Result<std::int64_t> count_invalid_mounted(Database& database, MountedTable table);

}  // namespace warren
