// Initialises SQLite for this process, with a page cache that is faster at the end of a transaction.
//
// At the end of a transaction SQLite drops cached pages beyond the end of the file. When it rebalances a tree it gives
// a page a temporary number that no file uses (that of the lock page), and its cache then takes that for the highest
// page number: the next end of a transaction scans the whole cache, half a millisecond with 16 MiB of small pages. Our
// cache wraps SQLite's, keeps the highest number without the temporary one, and asks SQLite's cache to drop pages only
// if there can be any.
#pragma once

namespace warren {

// Call before the first connection; later calls do nothing. The cache is installed only in our own copy of SQLite: one
// that other parts of the process share is left as it is.
void initialise_sqlite();

}  // namespace warren
