// Transfers attachments between the relays of a shared ledger, through the ledger.
//
// Large files take a while, so this happens in a background thread with its own connection, and the relay serves other
// senders meanwhile. While the database is unreachable or the disk is full, a transfer is retried; it fails only for
// reasons in the attachment itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/threads/mailbox.h"
#include "os/threads/worker.h"
#include "relay/attachments/attachment_store.h"
#include "relay/ledger/ledger.h"
#include "relay/root/log.h"
#include "relay/shared/carried.h"

namespace warren::relay {

enum class CarryKind {
  kPublish,  // copy from our store into the ledger
  kFetch,    // copy from the ledger into our store; if it is not there, homes that have it are asked to publish it
  kDrop,     // remove from the ledger, unless a future delivery needs it
};

struct CarryResult {
  CarryKind kind = CarryKind::kPublish;
  std::string hash;
  // The fetched file. kNotFound: no home has it; kCorrupt, kDenied: the file in our store is wrong; kTooLarge.
  Result<FileIdentity> file;
};

// For one thread. The background thread starts with the first request.
class Carrier {
 public:
  using OpenLedger = std::function<Result<std::unique_ptr<Ledger>>()>;  // called in the background thread

  struct Options {
    std::uint64_t fetch_bytes_max = 0;
    OpenLedger open_ledger;
  };
  static Result<std::unique_ptr<Carrier>> open(const AttachmentStore& store, Clock& clock, Log& log, Options options);

  // A request that is already pending is not repeated. Destruction interrupts the current transfer.
  Status request(CarryKind kind, const std::string& hash);
  int fd() const { return results_->fd(); }  // readable when there are results
  std::vector<CarryResult> take();
  bool is_idle() const { return requested_.empty(); }

 private:
  using Results = Mailbox<CarryResult>;
  struct Job {
    CarryKind kind = CarryKind::kPublish;
    std::string hash;
    bool is_requested = false;    // from the homes that have it
    bool was_wrong_once = false;  // the pieces fetched did not match the hash
    int tries = 0;
  };

  Carrier(const AttachmentStore& store, Clock& clock, Log& log, Options options, std::unique_ptr<Results> results)
      : store_(store), clock_(clock), log_(log), options_(std::move(options)), results_(std::move(results)) {}

  // In the background thread:
  void run(Job job);
  void retry(Job job, const Error& why);
  Status connect();
  Result<FileIdentity> carry(Job& job);
  Result<FileIdentity> publish(const std::string& hash);
  Status publish_pieces(const std::string& hash);
  Status withdraw(const std::string& hash);
  Result<FileIdentity> fetch(Job& job);
  Status fetch_pieces(const CarriedSource& source, const std::string& hash);
  Status forget(const CarriedSource& source, const std::string& hash);
  Status request_from_homes(Job& job);
  Result<FileIdentity> drop(const std::string& hash);

  const AttachmentStore& store_;
  Clock& clock_;
  Log& log_;
  Options options_;
  std::set<std::pair<CarryKind, std::string>> requested_;  // results not taken yet
  std::unique_ptr<Results> results_;
  std::unique_ptr<Ledger> ledger_;               // in the background thread
  std::unique_ptr<CarriedAttachments> carried_;  // in the background thread
  Worker worker_;
};

}  // namespace warren::relay
