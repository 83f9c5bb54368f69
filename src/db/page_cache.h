// SQLite's own page cache, spared one thing.
//
// At the end of a transaction SQLite drops cached pages beyond the file's end. When it has put the pages of a tree
// into order, it has lent one of them the number of a page that no file has (the one that locks are on), and from then
// on takes that for the highest number: the next end of a transaction looks at every page in the cache, half a
// millisecond with 16 MiB of small pages. So the highest number is kept here, without that one, and SQLite's cache is
// asked to drop pages only if there can be any.
#pragma once

namespace warren {

// Once for this process, before its first connection. With the cache above if SQLite is our own copy: one that other
// parts of the process use as well is left as it is.
void initialise_sqlite();

}  // namespace warren
