// fsck: checks an agent file against the rules of docs/format.md, and repairs what can be repaired.
//
// Works on the tables directly and not through Store, so that it can open files that Store refuses. Its
// memory does not grow with the agent: SQLite does the set operations, spilling to a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "db/cipher.h"

namespace warren {

struct Violation {
  std::string rule;  // as in docs/format.md: "FS-3"
  std::string message;
  bool repairable;
};

struct FsckReport {
  std::vector<Violation> violations;  // at most limits::kFsckPerRule of each rule, then a count of the rest
  std::uint64_t inodes = 0;
  std::uint64_t entries = 0;
  std::uint64_t chunks = 0;
  std::uint64_t keys = 0;
  std::uint64_t calls = 0;

  bool clean() const { return violations.empty(); }
};

// Read-only. kNotFound; kCorrupt if it is not a SQLite database or not an agent file;
// kUnsupported if a newer Warren wrote it; kDenied if it is encrypted and there is no key.
Result<FsckReport> check_agent(const std::string& path, Clock& clock, const KeyFinder& find_key = {});

struct RepairReport {
  FsckReport before;
  std::string backup_path;   // empty when there was nothing to repair
  std::size_t repaired = 0;  // rows changed
  FsckReport after;
  // The table of patterns was lost: it is there again without them, so new files are not encrypted.
  bool lost_patterns = false;
};

// Makes a backup next to the file, repairs in one transaction, then checks again. Nothing
// readable is deleted: nodes without a name are moved to /lost+found/<inode>.
// Key-value pairs and tool calls are never changed.
Result<RepairReport> repair_agent(const std::string& path, Clock& clock, const KeyFinder& find_key = {});

}  // namespace warren
