// fsck: does an agent file keep the rules of docs/format.md, and putting right what can be.
//
// Works on the tables themselves and not through Store, so that it opens what Store refuses. The
// memory it takes does not grow with the agent: SQLite does the set work, spilling to a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren {

struct Violation {
  std::string rule;  // as in docs/format.md: "FS-3"
  std::string message;
  bool repairable;
};

struct FsckReport {
  std::vector<Violation> violations;  // at most limits::kFsckPerRule of each rule, then how many more
  std::uint64_t inodes = 0;
  std::uint64_t entries = 0;
  std::uint64_t chunks = 0;
  std::uint64_t keys = 0;
  std::uint64_t calls = 0;

  bool clean() const { return violations.empty(); }
};

// Reads only. kNotFound; kCorrupt if it is no SQLite database or has none of our tables;
// kUnsupported if a newer Warren wrote it.
Result<FsckReport> check_agent(const std::string& path, Clock& clock);

struct RepairReport {
  FsckReport before;
  std::string backup_path;   // empty when there was nothing to repair
  std::size_t repaired = 0;  // rows put right
  FsckReport after;
};

// Takes a backup beside the file first, then repairs in one transaction, then checks again. Nothing
// is thrown away that anyone could read: nodes that lost their name go to /lost+found/<inode>.
// Key-value pairs and tool calls are never touched.
Result<RepairReport> repair_agent(const std::string& path, Clock& clock);

}  // namespace warren
