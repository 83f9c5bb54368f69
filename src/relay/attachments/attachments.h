// What a relay does about attachments: each is hashed before a message that refers to it is delivered, kept while a
// delivery of such a message is open, and collected a while after.
//
// A file is hashed once: the ledger has what it was then (inode, size, times), and only a change makes it hashed again.
// Large ones are hashed beside; then the sender's outbox waits, so that its order is kept, and others go on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "relay/attachments/attachment_hasher.h"
#include "relay/attachments/attachment_store.h"
#include "relay/attachments/attachment_sweep.h"
#include "relay/ledger/ledger.h"
#include "relay/protocol/message.h"
#include "relay/root/config.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/shared/carried.h"
#include "relay/shared/carrier.h"

namespace warren::relay {

enum class Readiness { kReady, kWaits };

// One thread. All it is given must outlive it.
class Attachments {
 public:
  static Result<std::unique_ptr<Attachments>> open(const Root& root, Ledger& ledger, const Config& config, Clock& clock,
                                                   Log& log);

  int fd() const { return hasher_->fd(); }  // readable when take_hashed() has something

  // Whether all that the message refers to is there and is what it says. kWaits: take_hashed() will name the waiter,
  // and then it is to be asked again. An error says why the message cannot go; what was wrong is moved aside. kLimit
  // and kIo are about this machine and not about the message.
  Result<Readiness> check(const Message& message, const std::string& waiter);
  std::set<std::string> take_hashed();
  bool is_waiting(const std::string& waiter) const;

  // For a ledger that several relays share (attachments_carried.cc); kWaits as above.
  // That all are where the relays of other recipients can take them from.
  Result<Readiness> publish(const Message& message, const std::string& waiter);
  Result<Readiness> publish_for_others(const std::string& hash);  // who ask for it
  // As check(), but what is not here is fetched.
  Result<Readiness> check_or_fetch(const Message& message, const std::string& waiter);
  // Once the round that is being planned is over, the ledger need not have them for this relay.
  void note_arrived(const std::vector<Attachment>& attachments);
  int carrier_fd() const { return carrier_ ? carrier_->fd() : -1; }  // as fd()

  // In the round's transaction, also of a message that is refused: its dead letter may be tried again.
  // kBusy: what was published for it is gone again, and is to be published anew.
  Status record(const Message& message, std::string_view message_id);
  Status record(const std::vector<Attachment>& attachments, std::string_view message_id);

  // One bounded step of looking for what nobody needs any more; false when there is nothing to do now. Not while a file
  // in an outbox may refer to something.
  bool sweep();
  std::int64_t sweep_at_ns() const { return hasher_->is_idle() ? sweep_.at_ns() : INT64_MAX; }
  void want_sweep(std::int64_t keep_ms) { sweep_.want(keep_ms); }

 private:
  Attachments(const Root& root, Ledger& ledger, const Config& config, Clock& clock, Log& log)
      : config_(config),
        clock_(clock),
        log_(log),
        ledger_(ledger),
        store_(root),
        sweep_(store_, ledger, config, clock, log) {}
  Result<Readiness> check_one(const std::string& hash, const std::string& waiter);
  Result<Readiness> judge(const std::string& hash, const AttachmentStore::Verified& found);
  Error reject(const std::string& hash, Error why);
  Status open_carrier(const Root& root);
  Result<Readiness> publish_one(const std::string& hash, const std::string& waiter);
  Result<Readiness> fetch_one(const std::string& hash, const std::string& waiter);
  void take_carried(std::set<std::string>& ready);
  Status drop_carried();

  const Config& config_;
  Clock& clock_;
  Log& log_;
  Ledger& ledger_;
  AttachmentStore store_;
  std::unique_ptr<AttachmentHasher> hasher_;
  AttachmentSweep sweep_;
  std::map<std::string, FileIdentity> verified_;                     // what the ledger does not know yet
  std::map<std::string, Result<AttachmentStore::Verified>> hashed_;  // results that nobody has asked for yet
  std::map<std::string, std::set<std::string>> waiters_;             // these three by hash
  std::unique_ptr<CarriedAttachments> carried_;                      // null, and what follows empty: nothing is shared
  std::unique_ptr<Carrier> carrier_;
  std::set<std::string> published_;      // hashes, for messages that are not recorded yet
  std::map<std::string, Error> failed_;  // hash → why it could not be published or fetched
  std::set<std::string> arrived_;        // hashes
};

}  // namespace warren::relay
