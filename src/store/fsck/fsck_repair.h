// The repairs of fsck, on a connection with an open write transaction.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"
#include "store/fsck/fsck.h"

namespace warren {

// Repairs the violations in `before` that are marked repairable; returns how many rows it changed.
Result<std::size_t> repair_tables(Database& database, const FsckReport& before, Timestamp now);

}  // namespace warren
