// Removes what a relay's directory no longer needs: old days of the archive, what agents have long dealt with, and
// leftovers of operations that died.
//
// Removing costs a hundred times what renaming does, so a day is first renamed to tmp/ as a whole, out of everyone's
// way, and then removed a few files at a time. Killed in between, the next start finds it there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/root/root.h"

namespace warren::relay {

// One thread. Root, ledger and clock must outlive it. Everything stops early, without an error, once `may_go_on` says
// no; it is asked after each file, and may take its time.
class Sweeper {
 public:
  Sweeper(Root& root, Ledger& ledger, Clock& clock, std::function<bool()> may_go_on)
      : root_(root), ledger_(ledger), clock_(clock), may_go_on_(std::move(may_go_on)) {}

  // In tmp/: days that were being removed, and whatever else was not touched for an hour. How many.
  Result<std::uint64_t> remove_leftovers();

  // Days before `date` (2026-01-31), the oldest first, until `is_enough`; but no file that a delivery or a dead letter
  // still needs. How many files.
  Result<std::uint64_t> sweep_archive(const std::string& date, const std::function<bool()>& is_enough);

  // Message files in every inbox/.done that were written before this time. How many.
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

// The UTC date so many days before.
std::string date_before(Clock& clock, int days);

}  // namespace warren::relay
