// Migrates an agent file from an older schema (0.0, 0.2) to the current one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "db/cipher.h"

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

// All steps in one transaction; a current file is not changed. With DryRun::kYes nothing is
// changed, and the report lists what would be. kUnsupported for data we cannot convert.
Result<MigrationReport> migrate_agent(const std::string& path, DryRun dry_run, const KeyFinder& find_key = {});

}  // namespace warren
