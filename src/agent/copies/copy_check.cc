#include "agent/copies/copy_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/agent.h"
#include "base/path.h"
#include "store/fsck/fsck.h"

namespace warren {

std::string CopyFaults::text() const {
  return count == 1 ? fmt::format("a fault: {}", first) : fmt::format("faults, the first: {}", first);
}

Result<CopyFaults> find_copy_faults(const std::string& file, const KeyFinder& find_key, Clock& clock) {
  FsckReport report = WARREN_TRY(check_agent(file, clock, find_key));
  // A damaged audit trail cannot be repaired, and must not cost the files: `audit verify` names the row. Nor must an
  // encrypted file that another program has written to: reading it says so.
  std::erase_if(report.violations,
                [](const Violation& one) { return one.rule == "WR-40" || one.rule == "WR-82" || one.rule == "WR-83"; });
  CopyFaults faults;
  if (report.clean()) return faults;
  faults.count = report.violations.size();
  faults.first = std::move(report.violations.front().message);
  faults.are_repairable = std::ranges::all_of(report.violations, &Violation::repairable);
  return faults;
}

Result<CopyFaults> back_up(Agent& agent, const std::string& file, Clock& clock) {
  WARREN_TRY(agent.backup_to(file));
  return find_copy_faults(file, agent.store().database().key_finder(), clock)
      .within(fmt::format("{} is there, but could not be checked", quote(file)));
}

}  // namespace warren
