// Syncs the ledger behind the relay, in a thread of its own, and then takes senders' files out of their outboxes: the
// commits of several rounds share a sync, no message waits for it, and what left its outbox is durable.
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

// A processed file of an outbox, and where in the archive it goes.
struct Filing {
  std::string agent;
  std::string file;
  std::string path;
};

// Thread-safe.
class LedgerSyncer {
 public:
  using Sync = std::function<Status()>;
  using File = std::function<std::vector<Filing>(std::vector<Filing>)>;  // gives those to try again

  LedgerSyncer(Sync sync, File file);  // both are called in its thread
  ~LedgerSyncer();                     // what was asked for last may not be done

  // Everything committed until now is to be synced, and then these are to be filed; the number of that. Waits while
  // very many are.
  std::uint64_t ask(std::vector<Filing> filings = {});
  Status wait(std::uint64_t number);        // until it is synced
  Status wait_filed(std::uint64_t number);  // and filed

  // A failed sync is not repeated: the system forgets what it could not write. Somebody else must make it durable, and
  // says so.
  std::optional<Error> failure() const;
  void settle();

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
  std::vector<Filing> filings_;  // of those asked for and not yet filed
  std::optional<Error> failure_;
  bool is_hurried_ = false;  // somebody waits
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace warren::relay
