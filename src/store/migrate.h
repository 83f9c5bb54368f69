// Brings an agent file of an older schema (0.0, 0.2) up to the current one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

struct MigrationStep {
  std::string from;
  std::string to;
  std::vector<std::string> actions;  // "Added nlink column to fs_inode"
};

struct MigrationReport {
  std::string from;
  std::string to;
  std::vector<MigrationStep> steps;  // none: the file is current
};

enum class DryRun { kNo, kYes };

// All steps in one transaction; a file that is current is left alone. With DryRun::kYes nothing is
// changed, and the report says what would be. kUnsupported for data we cannot carry over.
Result<MigrationReport> migrate_agent(const std::string& path, DryRun dry_run);

}  // namespace warren
