// The checks behind fsck, on a connection that fsck or a repair has open.
#pragma once

#include <string_view>

#include "base/result.h"
#include "db/database.h"
#include "store/fsck.h"
#include "store/table_names.h"

namespace warren {

// Fills the temporary tables that checks and repairs work with, from what the file holds now:
//   fsck_fact(chunk_bytes)      one row
//   fsck_orphan(ino)            wr_orphan, also where the file has none
//   fsck_link(ino, names)       how many entries lead to a node
//   fsck_reached(ino)           directories that are not in a circle or below one
Status gather_facts(Database& database, const TableNames& tables);

// Whether the path leads to a node through entries, links not followed. `lookup` finds the inode of
// (parent_ino, name).
Result<bool> leads_somewhere(Statement& lookup, std::string_view path);

// gather_facts and every check. Call it in a transaction, so that all checks see one state.
Result<FsckReport> run_checks(Database& database);

}  // namespace warren
