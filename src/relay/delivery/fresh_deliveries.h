// Deliveries whose files were renamed into inboxes a moment ago and may not be on the disk yet.
//
// Most of them are read within milliseconds. So a file is left alone for a little while; when it is still there then,
// it is synced together with its inbox, and only now counts as delivered. Of those that were read, only the directories
// are synced, once for all of some seconds: until then a power cut could make them vanish, although their receivers may
// not have got anywhere with them.
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
  kDelivered,  // it is in the inbox, durably
  kRead,       // its file has left the inbox
  kGone,       // and that is durable
  kFailed,     // it could not be synced
};

struct Settled {
  Delivery delivery;
  Fate fate = Fate::kDelivered;
  Status synced = Ok{};
  std::int64_t stamp = 0;  // of one that is gone, which has no more than that
};

enum class Wait { kNo, kForAll };

// Whether the ledger has the content, from which a file that vanished can be made again.
enum class Backed { kNo, kYes };

// One thread.
class FreshDeliveries {
 public:
  FreshDeliveries(const Root& root, SyncPool& syncs, Clock& clock) : root_(root), syncs_(syncs), clock_(clock) {}

  void add(Delivery delivery, Backed backed);
  bool contains(std::string_view recipient, std::string_view inbox_name) const;
  // It was acknowledged: no longer our concern.
  std::optional<Delivery> take(std::string_view recipient, std::string_view inbox_name);
  // It was read: is over when that is durable. Not of one without backing: that counts as read only then.
  std::optional<Delivery> take_read(std::string_view recipient, std::string_view inbox_name);
  void add_read(const Delivery& delivery);

  // Begins to sync what has rested long enough, and gives what is over.
  std::vector<Settled> collect(Wait wait);
  std::int64_t wake_at_ns() const;  // monotonic; the pool tells when syncs are over

 private:
  using Stamps = std::map<std::string, std::vector<std::int64_t>>;  // by recipient
  struct Resting {
    std::int64_t until_ns;
    std::string key;
  };
  struct Syncing {
    std::shared_ptr<SyncBatch> batch;
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
  bool begin(Wait wait, std::vector<Settled>& over);  // false: there are no descriptors
  bool begin_read();                                  // the same
  void end_oldest(std::vector<Settled>& over);
  Result<Fd> open(const Delivery& delivery, std::map<std::string, Fd>& inboxes) const;
  void add_done(const std::string& recipient, std::map<std::string, Fd>& inboxes) const;

  const Root& root_;
  SyncPool& syncs_;
  Clock& clock_;
  std::unordered_map<std::string, Fresh> all_;  // by staged_name()
  std::deque<Resting> resting_;                 // oldest first; may name some that are gone from all_
  std::deque<Syncing> syncing_;
  Stamps read_;
  std::int64_t read_at_ns_ = INT64_MAX;  // when their directories are synced
};

}  // namespace warren::relay
