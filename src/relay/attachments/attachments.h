// The relay's handling of attachments: a file is verified before a message that refers to it is delivered, kept while
// such a message has an open delivery, and garbage-collected some time later.
//
// A file is hashed once: the ledger records its identity (inode, size, times), and only a changed file is hashed again.
// Large files are hashed in the background. The sender's outbox waits for that, to keep its order; others do not.
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
#include "relay/attachments/handover.h"
#include "relay/ledger/ledger.h"
#include "relay/protocol/message.h"
#include "relay/root/config.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/shared/carried.h"
#include "relay/shared/carrier.h"

namespace warren::relay {

enum class Readiness { kReady, kWaits };

inline constexpr std::uint64_t kInlineBytes = std::uint64_t{1} << 20;  // hashed in the relay's thread: some 2 ms
inline constexpr std::size_t kRememberedAttachments = 4096;            // results kept in memory

// For one thread. All arguments of open() must outlive it.
class Attachments {
 public:
  static Result<std::unique_ptr<Attachments>> open(const Root& root, Ledger& ledger, const Config& config, Clock& clock,
                                                   Log& log);

  int fd() const { return hasher_->fd(); }  // readable when take_hashed() has something

  // Verifies all attachments of the message. kWaits: call again once take_hashed() returns the waiter. On an error the
  // message cannot be delivered, and a wrong file was moved aside; but kLimit and kIo concern this machine and not the
  // message.
  Result<Readiness> check(const Message& message, const std::string& waiter);
  // Before check(), for agents that cannot reach the store (attachments_handed.cc): takes the files from the sender's
  // outbox, where a confined sender must have put them. What it does not have, it cannot send.
  enum class Confined { kNo, kYes };
  Result<Readiness> take_in(const Message& message, const std::string& sender, Confined confined);
  // After check(): copies the files to the recipient's inbox, if it wants that. A recipient that prevents it goes
  // without; an error means a shortage.
  Result<Readiness> hand_out(const Message& message, const std::string& recipient, const std::string& waiter);
  std::set<std::string> take_hashed();
  bool is_waiting(const std::string& waiter) const;

  // For a shared ledger (attachments_carried.cc); kWaits as above.
  // Copies all attachments into the ledger, for the relays of other recipients.
  Result<Readiness> publish(const Message& message, const std::string& waiter);
  Result<Readiness> publish_for_others(const std::string& hash);  // on request by another relay
  // As check(), but fetches what is missing.
  Result<Readiness> check_or_fetch(const Message& message, const std::string& waiter);
  // After the current round, this relay no longer needs them in the ledger.
  void note_arrived(const std::vector<Attachment>& attachments);
  int carrier_fd() const { return carrier_ ? carrier_->fd() : -1; }  // as fd()

  // Records the references in the round's transaction. Also for a refused message: its dead letter may be retried.
  // kBusy: an attachment was dropped from the shared ledger meanwhile and must be published again.
  Status record(const Message& message, std::string_view message_id);
  Status record(const std::vector<Attachment>& attachments, std::string_view message_id);

  // One step of garbage collection; false if none is due. Must not run while a file in an outbox may hold a new
  // reference.
  bool sweep();
  std::int64_t sweep_at_ns() const { return hasher_->is_idle() ? sweep_.at_ns() : INT64_MAX; }
  void start_sweep(std::int64_t keep_ms) { sweep_.start_pass(keep_ms); }

 private:
  Attachments(const Root& root, Ledger& ledger, const Config& config, Clock& clock, Log& log)
      : root_(root),
        config_(config),
        clock_(clock),
        log_(log),
        ledger_(ledger),
        store_(root),
        handover_(root, store_),
        sweep_(store_, ledger, config, clock, log) {}
  Result<Readiness> check_one(const std::string& hash, const std::string& waiter);
  Result<Readiness> judge(const std::string& hash, const AttachmentStore::Verified& found);
  Error reject(const std::string& hash, Error why);
  Result<Readiness> take_in_one(const std::string& hash, const std::string& sender, Confined confined);
  Result<Readiness> hand_out_one(const std::string& hash, const std::string& recipient, const std::string& waiter);
  void sweep_handed();
  Status open_carrier(const Root& root);
  Result<Readiness> publish_one(const std::string& hash, const std::string& waiter);
  Result<Readiness> fetch_one(const std::string& hash, const std::string& waiter);
  void take_carried(std::set<std::string>& ready);
  Status drop_carried();

  const Root& root_;
  const Config& config_;
  Clock& clock_;
  Log& log_;
  Ledger& ledger_;
  AttachmentStore store_;
  Handover handover_;
  std::unique_ptr<AttachmentHasher> hasher_;
  AttachmentSweep sweep_;
  std::map<std::string, FileIdentity> verified_;                     // by hash; not recorded in the ledger yet
  std::map<std::string, Result<AttachmentStore::Verified>> hashed_;  // as waiters_; not used yet
  std::map<std::string, FileIdentity> taken_in_;                     // by sender>hash: files in outboxes
  std::map<std::string, std::set<std::string>> waiters_;             // by hash, sender>hash or recipient<hash
  std::unique_ptr<CarriedAttachments> carried_;                      // null unless the ledger is shared, like carrier_
  std::unique_ptr<Carrier> carrier_;
  std::set<std::string> published_;      // hashes, for messages not recorded yet
  std::map<std::string, Error> failed_;  // by hash: why it could not be published or fetched
  std::set<std::string> arrived_;        // hashes that this relay no longer needs in the ledger
};

}  // namespace warren::relay
