// Removes old files below a relay's root: days of the archive, processed messages in inbox/.done, and leftovers of
// interrupted operations.
//
// Removing files takes a hundred times as long as renaming their directory. So a day is first moved to tmp/, out of
// everyone's way, and then removed a few files at a time. After a crash the next start finds it there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/root/root.h"

namespace warren::relay {

inline constexpr std::string_view kRemovedPrefix = "removed-";  // in tmp/, of the directory of a removed agent

// For one thread. Root, ledger and clock must outlive it. `may_go_on` is called after each file and may block; once it
// returns false, everything stops early, without an error.
class Sweeper {
 public:
  Sweeper(Root& root, Ledger& ledger, Clock& clock, std::function<bool()> may_go_on)
      : root_(root), ledger_(ledger), clock_(clock), may_go_on_(std::move(may_go_on)) {}

  // Removes from tmp/ the days being removed, and other entries unchanged for an hour; what belongs to removed agents
  // is kept longer. Returns the number of entries.
  Result<std::uint64_t> remove_leftovers();

  // Removes days before `date` (2026-01-31), oldest first, until `is_enough`; but no file that a delivery or a dead
  // letter still needs. Returns the number of files.
  Result<std::uint64_t> sweep_archive(const std::string& date, const std::function<bool()>& is_enough);

  // Removes message files from every inbox/.done that were written before this time. Returns the number of files.
  Result<std::uint64_t> sweep_done(std::int64_t before_seconds);

 private:
  Result<std::uint64_t> sweep_day(const std::string& date);
  Result<std::uint64_t> sweep_unneeded(int day);
  Result<std::uint64_t> remove_swept(const std::string& name);  // in tmp/

  Root& root_;
  Ledger& ledger_;
  Clock& clock_;
  std::function<bool()> may_go_on_;
};

// The UTC date that many days ago.
std::string date_before(Clock& clock, int days);

}  // namespace warren::relay
