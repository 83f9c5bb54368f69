// Deliveries whose files were just renamed into inboxes and may not be on the disk yet.
//
// Most files are read within milliseconds, so syncing is delayed. A file that is still in its inbox after 20 ms is
// synced together with the inbox, and only then counts as delivered. For files that were read, only the directories are
// synced, every few seconds: until then a power cut could remove the files before their receivers have processed them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "relay/delivery/sync_pool.h"
#include "relay/ledger/ledger.h"
#include "relay/root/root.h"

namespace warren::relay {

// How a fresh delivery ended.
enum class Fate {
  kDelivered,  // its file is in the inbox, durably
  kRead,       // its file has left the inbox
  kGone,       // its file has left the inbox, durably
  kFailed,     // its file could not be synced, or is gone with the whole inbox: nobody has read it
};

struct FreshOutcome {
  Delivery delivery;
  Fate fate = Fate::kDelivered;
  Status synced = Ok{};
  std::int64_t stamp = 0;  // set for kGone, instead of `delivery`
};

enum class Wait { kNo, kForAll };

// Whether the ledger has the content, so that a lost file can be written again.
enum class Backed { kNo, kYes };

// One thread.
class FreshDeliveries {
 public:
  FreshDeliveries(const Root& root, SyncPool& syncs, Clock& clock) : root_(root), syncs_(syncs), clock_(clock) {}

  void add(Delivery delivery, Backed backed);
  bool contains(std::string_view recipient, std::string_view inbox_name) const;
  // For a delivery that was acknowledged: stops tracking it.
  std::optional<Delivery> take(std::string_view recipient, std::string_view inbox_name);
  // For a delivery that was read: collect() returns kGone when that is durable. Returns nothing for a delivery without
  // backing, which counts as read only when that is durable.
  std::optional<Delivery> take_read(std::string_view recipient, std::string_view inbox_name);
  void add_read(const Delivery& delivery);

  // Starts syncing files that have rested long enough, and returns the deliveries that have ended.
  std::vector<FreshOutcome> collect(Wait wait);
  std::int64_t wake_at_ns() const;  // monotonic; the end of a sync is signalled by the pool's fd()

 private:
  using Stamps = std::map<std::string, std::vector<std::int64_t>>;  // by recipient
  struct Resting {
    std::int64_t until_ns;
    std::string key;
  };
  struct Syncing {
    std::shared_ptr<SyncRequest> batch;
    std::vector<std::string> keys;
    std::vector<std::string> left;  // no longer in their inboxes, and without backing
    Stamps read;
  };
  struct Fresh {
    Delivery delivery;
    Backed backed;
  };

  void note_read(const std::string& recipient, std::int64_t stamp);
  bool is_due(Wait wait);
  bool begin(Wait wait, std::vector<FreshOutcome>& outcomes);  // false: out of descriptors
  bool begin_read();                                           // false: out of descriptors
  void end_oldest(std::vector<FreshOutcome>& outcomes);
  Result<Fd> open(const Delivery& delivery, std::map<std::string, Fd>& inboxes) const;
  void add_done(const std::string& recipient, std::map<std::string, Fd>& inboxes) const;

  const Root& root_;
  SyncPool& syncs_;
  Clock& clock_;
  std::unordered_map<std::string, Fresh> all_;  // by staged_name()
  std::deque<Resting> resting_;                 // oldest first; may contain keys that are no longer in all_
  std::deque<Syncing> syncing_;
  Stamps read_;
  std::int64_t read_at_ns_ = INT64_MAX;  // when the directories of read_ are synced
};

}  // namespace warren::relay
