// The checks of fsck, on a connection that fsck or a repair has open.
#pragma once

#include <string_view>

#include "base/result.h"
#include "db/database.h"
#include "store/fsck/fsck.h"
#include "store/table_names.h"

namespace warren {

// Fills the temporary tables of checks and repairs from the current content of the file:
//   fsck_fact(chunk_bytes)      one row
//   fsck_orphan(ino)            wr_orphan; empty if the file has no such table
//   fsck_link(ino, names)       how many entries a node has
//   fsck_reached(ino)           directories that are not in a cycle or below one
Status gather_facts(Database& database, const TableNames& tables);

// Whether the path exists, without following symlinks. `lookup` finds the inode of
// (parent_ino, name).
Result<bool> leads_somewhere(Statement& lookup, std::string_view path);

// gather_facts and every check. Call it in a transaction, so that all checks see one state.
Result<FsckReport> run_checks(Database& database);

}  // namespace warren
