// Contents of small messages that the ledger keeps, so that their files need not be synced before the commit: until the
// file was synced, or read. Each is known by the stamp of its deliveries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "base/result.h"
#include "relay/ledger/ledger.h"

namespace warren::relay {

// One thread.
class Bodies {
 public:
  explicit Bodies(Ledger& ledger) : ledger_(ledger) {}

  bool are_kept() const { return are_kept_; }  // otherwise every file is synced before the commit
  void set_kept(bool are_kept) { are_kept_ = are_kept; }
  void clear();  // as after recovery, which drops all of them from the ledger

  void add(std::int64_t stamp) { ++needed_[stamp]; }  // once for each delivery that needs it
  bool contains(std::int64_t stamp) const { return needed_.contains(stamp); }
  void release(std::int64_t stamp);  // a delivery no longer needs it

  bool has_unneeded() const { return !unneeded_.empty(); }
  std::int64_t first_unneeded() const { return unneeded_.front(); }
  // Drops some of those that no delivery needs, in the current transaction, up to the first for which `may_drop` is
  // false. Returns how many; forget() them once that is committed.
  template <class MayDrop>
  Result<std::size_t> drop(MayDrop may_drop);
  void forget(std::size_t dropped) {
    unneeded_.erase(unneeded_.begin(), unneeded_.begin() + static_cast<std::ptrdiff_t>(dropped));
  }

 private:
  std::size_t count_to_drop() const;  // few, so that a round stays short; more, where there are many

  Ledger& ledger_;
  std::unordered_map<std::int64_t, std::size_t> needed_;  // stamp → deliveries that may need it
  std::deque<std::int64_t> unneeded_;                     // to be dropped by the next rounds
  bool are_kept_ = false;
};

template <class MayDrop>
Result<std::size_t> Bodies::drop(MayDrop may_drop) {
  std::size_t most = count_to_drop();
  std::size_t dropped = 0;
  for (; dropped < most && may_drop(unneeded_[dropped]); ++dropped) WARREN_TRY(ledger_.drop_body(unneeded_[dropped]));
  return dropped;
}

}  // namespace warren::relay
