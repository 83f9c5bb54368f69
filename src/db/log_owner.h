// Which log belongs to which database file.
//
// SQLite finds the log of a database by name alone: NAME-wal. A file that was moved while a process has it open, that
// has two names, or that took the name of another file would be read without its log, or with the log of another file,
// and a checkpoint then destroys it. So before SQLite reads a file, these functions find out whether another process
// has it open under another name (by SQLite's own locks), and whether the log beside it is its own (by a mark that both
// files carry as an extended attribute). See docs/design/db.md.
#pragma once

#include <string>

#include "base/result.h"

namespace warren {

class WalSignals;

enum class LogUse { kRead, kWrite };

// Call once SQLite has the file open and before it reads it. `path` is SQLite's name of it: absolute, without links.
// kBusy if a process has the file open under another name, or has another file open that had this name. kConflict if
// its log is elsewhere or the log beside it is another file's, and for writing if the file has several names. kInvalid
// if what is in the place of its log is not a regular file.
Status check_log_owner(const std::string& path, LogUse use);

// Marks the file and its log as belonging together. Does nothing where the filesystem has no extended attributes.
void mark_log(const std::string& path, WalSignals& signals);

// Whether there is a log beside the file that has commits, or may have had some.
bool has_logged_commits(const std::string& path);

// kConflict or kBusy if there is a log for a file that is about to be created at `path`; kInvalid as above.
Status check_no_log(const std::string& path);

}  // namespace warren
