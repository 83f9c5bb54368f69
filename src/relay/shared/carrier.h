// Carries attachments between the homes of a shared ledger, in a thread with a connection of its own: a large file
// takes a while, and the relay goes on with other senders meanwhile.
//
// While the database is away, or the disk is full, it tries again and again; a job is over only when it is done, or
// when the attachment itself cannot be carried.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "relay/attachments/attachment_store.h"
#include "relay/ledger/ledger.h"
#include "relay/root/log.h"
#include "relay/shared/carried.h"

namespace warren::relay {

enum class CarryKind {
  kPublish,  // from our store into the ledger
  kFetch,    // from there into our store; if need be, a home that has it is asked to publish it
  kDrop,     // from the ledger, unless a delivery to come needs it
};

struct CarryResult {
  CarryKind kind = CarryKind::kPublish;
  std::string hash;
  // What was fetched. kNotFound: nobody has it; kCorrupt, kDenied: what our store has is not it; kTooLarge.
  Result<FileIdentity> file;
};

// Used by one thread. There is no other until something is wanted.
class Carrier {
 public:
  using OpenLedger = std::function<Result<std::unique_ptr<Ledger>>()>;  // called in its thread

  struct Options {
    std::uint64_t fetch_bytes_max = 0;
    OpenLedger open_ledger;
  };
  static Result<std::unique_ptr<Carrier>> open(const AttachmentStore& store, Clock& clock, Log& log, Options options);
  ~Carrier();  // stops in the middle of a file

  int fd() const { return event_.get(); }                // readable when there are results
  Status want(CarryKind kind, const std::string& hash);  // again is fine
  std::vector<CarryResult> take();
  bool is_idle() const { return wanted_.empty(); }

 private:
  struct Job {
    CarryKind kind = CarryKind::kPublish;
    std::string hash;
    bool is_asked = false;    // of a home that has it
    bool has_failed = false;  // since what came was wrong
    int tries = 0;
    std::int64_t not_before_ns = 0;  // monotonic
  };

  Carrier(const AttachmentStore& store, Clock& clock, Log& log, Options options, Fd event)
      : store_(store), clock_(clock), log_(log), options_(std::move(options)), event_(std::move(event)) {}
  void work();
  std::optional<Job> next();
  void put_off(Job job, const Error& why);
  void report(const Job& job, Result<FileIdentity> file);
  Status connect();
  Result<FileIdentity> carry(Job& job);
  Result<FileIdentity> publish(const std::string& hash);
  Status publish_pieces(const std::string& hash);
  Status give_up(const std::string& hash);
  Result<FileIdentity> fetch(Job& job);
  Status fetch_pieces(const CarriedSource& source, const std::string& hash);
  Status forget(const CarriedSource& source, const std::string& hash);
  Status ask(Job& job);
  Result<FileIdentity> drop(const std::string& hash);

  const AttachmentStore& store_;
  Clock& clock_;
  Log& log_;
  Options options_;
  Fd event_;
  std::set<std::pair<CarryKind, std::string>> wanted_;  // by the owner, and not taken yet
  std::unique_ptr<Ledger> ledger_;                      // of the thread, like what follows
  std::unique_ptr<CarriedAttachments> carried_;

  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;          // under mutex_
  std::vector<CarryResult> done_;  // under mutex_
  std::thread thread_;
};

}  // namespace warren::relay
