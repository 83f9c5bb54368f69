// Syncs the ledger in a thread of its own, and then moves senders' files out of their outboxes: the commits of several
// rounds share a sync, no message waits for it, and a message whose file left its outbox is durable.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren::relay {

// A processed file of an outbox, and its path in the archive.
struct Filing {
  std::string agent;
  std::string file;
  std::string path;
};

// Thread-safe.
class LedgerSyncer {
 public:
  using Sync = std::function<Status()>;
  using File = std::function<std::vector<Filing>(std::vector<Filing>)>;  // returns those to try again

  LedgerSyncer(Sync sync, File file);  // both are called in its thread
  ~LedgerSyncer();                     // does not finish pending requests

  // Asks to sync everything committed until now, and then to file these; returns the number of the request. Waits while
  // very many files are queued.
  std::uint64_t ask(std::vector<Filing> filings = {});
  Status wait(std::uint64_t number);        // until it is synced
  Status wait_filed(std::uint64_t number);  // and filed

  // A failed sync is not repeated: the kernel drops pages that it could not write. The caller makes the data durable in
  // another way, and then calls note_durable().
  std::optional<Error> failure() const;
  void note_durable();

  int fd() const { return wake_.get(); }  // readable when a sync failed
  void clear();

 private:
  Status wait_for(const std::uint64_t& done, std::uint64_t number);
  void work();
  void sync_and_file(std::unique_lock<std::mutex>& lock);

  Sync sync_;
  File file_;
  Fd wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0;
  std::uint64_t synced_ = 0;
  std::uint64_t filed_ = 0;
  std::vector<Filing> filings_;  // requested and not yet filed
  std::optional<Error> failure_;
  bool is_hurried_ = false;  // a caller waits
  bool is_ending_ = false;
  std::thread thread_;  // not a Worker: it skips every pause while a caller waits, and Worker::wake() ends only one
};

}  // namespace warren::relay
