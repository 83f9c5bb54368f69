// The tables that keep earlier versions of an agent's rows: wr_past_…, one for each table that a checkpoint covers.
//
// A version of a row holds for the checkpoints from `since` up to, not including, `until`; the newest version of a row
// that still exists has kOpenEnd. All of these tables are handled alike, by SQL that is put together here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "db/database.h"
#include "db/sql.h"
#include "store/table_names.h"

namespace warren {

inline constexpr std::int64_t kOpenEnd = INT64_MAX;

// What the changes that a journal lists say about a table's rows.
enum class PastScope {
  kNode,   // rows of an inode: `node` is the column
  kItem,   // rows about an inode, which do not end with it: `node` is the column
  kName,   // an entry of a directory
  kKey,    // a key
  kWhole,  // nothing: its rows are all compared
  kMount,  // nothing: rows of wr_mounted, which are all compared
};

struct PastColumn {
  Sql name;
  Sql type = "";            // of a key
  bool is_compared = true;  // false: a hash in another column stands for it
};

struct PastTable {
  Sql live;
  Sql past;
  std::span<const PastColumn> keys;
  std::span<const PastColumn> values;
  PastScope scope = PastScope::kNode;
  Sql node = "ino";
  Sql filter = "";       // which rows belong to the agent's state, of `t`; "": all
  bool is_wide = false;  // its rows are large
};

std::span<const PastTable> past_tables();

// Creates all of them.
Status make_past_tables(Database& database);

// For fsck: how many rows of a past table are no valid version (WR-50), and how many overlap another (WR-51).
JoinedSql count_invalid_versions(const PastTable& table);
JoinedSql count_overlapping_versions(const PastTable& table);
JoinedSql erase_invalid_versions(const PastTable& table);
JoinedSql end_overlapping_versions(const PastTable& table);  // where the next one begins
JoinedSql erase_unneeded_versions(const PastTable& table);   // that hold for no checkpoint and are not open
JoinedSql erase_ownerless_versions(const PastTable& table);  // of a node that did not exist; only with PastScope::kNode

// The statements for one table. Columns that the file's table lacks, because another program made it, are left out.
class PastSql {
 public:
  PastSql(const PastTable& table, const TableNames& names);

  bool is_live() const { return !keys_.empty(); }              // the file has the table
  bool exists() const { return !keys_.empty() && has_past_; }  // both: an older program has made fewer

  enum class Rows { kAll, kListed };  // kListed: of the nodes in the JSON array ?2, the name (?2, ?3) or the key ?2

  // At version ?1: ends versions that are not what the table has now, and adds those that it has now.
  JoinedSql end_changed(Rows rows) const;
  JoinedSql add_new(Rows rows) const;

  // Makes the table what it was at checkpoint ?1, given that the open versions are what it has now. With `kept`, rows
  // of nodes in the JSON array ?2 stay.
  JoinedSql erase_newer(bool has_kept) const;
  JoinedSql insert_older() const;
  // The same for the versions, at version ?2.
  JoinedSql end_newer() const;
  JoinedSql add_older() const;

  // Keys of rows that differ between checkpoint ?1 and the open versions, or checkpoint ?2.
  JoinedSql list_changed_since() const;
  JoinedSql list_changed_between() const;

  // CREATE TEMP VIEW: the table at a checkpoint, under its own name. Nothing, if no checkpoint kept it.
  JoinedSql make_view(std::int64_t checkpoint) const;

 private:
  JoinedSql list(Sql prefix, bool with_values) const;
  JoinedSql matches() const;
  JoinedSql scope(Sql prefix, Rows rows) const;

  const PastTable& table_;
  std::vector<Sql> keys_;
  std::vector<Sql> values_;
  std::vector<Sql> compared_;  // of values_
  bool has_past_ = false;
};

}  // namespace warren
