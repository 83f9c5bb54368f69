#include "store/fsck/fsck.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "db/database.h"
#include "db/transaction.h"
#include "store/ciphers/content_keys.h"
#include "store/fsck/fsck_checks.h"
#include "store/fsck/fsck_repair.h"
#include "store/table_names.h"

namespace warren {
namespace {

Result<FsckReport> check(Database& database) {
  Transaction view = WARREN_TRY(Transaction::begin(database, Access::kRead));
  return run_checks(database);
}

Result<std::unique_ptr<Database>> open(const std::string& path, OpenMode mode, const KeyFinder& find_key) {
  auto database =
      WARREN_TRY(Database::open(path, {.mode = mode, .temp_tables = TempTables::kYes, .find_key = find_key}));
  // The compared sets grow with the agent, so they must not be in memory. Those of an encrypted one must not be on the
  // disk: temporary files are not encrypted.
  if (!database->key()) WARREN_TRY(database->execute("PRAGMA temp_store=FILE"));
  return database;
}

// Two repairs within a second must not share a name.
Result<std::string> back_up(Database& database, const std::string& path, std::int64_t seconds) {
  for (int nth = 0; nth < 100; ++nth) {
    std::string name = fmt::format("{}.before-repair-{}{}", path, seconds, nth == 0 ? "" : fmt::format(".{}", nth));
    Status done = database.backup_to(name, CopyOf::kDamaged);
    if (done.ok()) return name;
    if (done.error().code() != Code::kExists) return std::move(done).take_error();
  }
  return Error(Code::kExists, fmt::format("there are already a hundred backups of {} next to it", quote(path)));
}

bool has_work(const FsckReport& report) {
  return std::ranges::any_of(report.violations, [](const Violation& violation) { return violation.repairable; });
}

Status repair(Database& database, Clock& clock, RepairReport& report) {
  Transaction change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  report.repaired = WARREN_TRY(repair_tables(database, report.before, clock.now()));
  return change.commit();
}

}  // namespace

Result<FsckReport> check_agent(const std::string& path, Clock& /*clock*/, const KeyFinder& find_key) {
  std::string what = fmt::format("check {}", quote(path));
  auto database = WARREN_TRY(open(path, OpenMode::kReadOnly, find_key).within(what));
  return check(*database).within(what);
}

Result<RepairReport> repair_agent(const std::string& path, Clock& clock, const KeyFinder& find_key) {
  RepairReport report;
  report.before = WARREN_TRY(check_agent(path, clock, find_key));
  if (!has_work(report.before)) {
    report.after = report.before;
    return report;
  }
  std::string what = fmt::format("repair {}", quote(path));
  auto database = WARREN_TRY(open(path, OpenMode::kReadWrite, find_key).within(what));
  report.backup_path = WARREN_TRY(back_up(*database, path, clock.now().seconds).within(what));
  TableNames names = WARREN_TRY(TableNames::read(*database).within(what));
  auto missing = list_missing_for_ciphers(names);
  report.lost_patterns = std::ranges::find(missing, "wr_cipher_pattern") != missing.end();
  WARREN_TRY(repair(*database, clock, report).within(what));
  report.after = WARREN_TRY(check(*database).within(what));
  return report;
}

}  // namespace warren
