// The repairs behind fsck, on a connection that has a write transaction open.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"
#include "store/fsck.h"

namespace warren {

// Puts right what `before` found and marked repairable; returns how many rows that took.
Result<std::size_t> repair_tables(Database& database, const FsckReport& before, Timestamp now);

}  // namespace warren
