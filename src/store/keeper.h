// The threads of a store that is open for a mount: they end batches in time, hear what other processes
// change, and move the log into the file while nobody waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"
#include "db/database.h"
#include "fs/change_listener.h"
#include "os/fd.h"
#include "os/watch.h"
#include "store/journal.h"

namespace warren {

// The database and journal outlive it. Thread-safe.
class Keeper {
 public:
  static Result<std::unique_ptr<Keeper>> start(Database& database, Journal& journal);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  void batch_opened() { wake(); }
  void batch_ended();  // under the database's lock, outside a transaction
  void everything_changed();

  // See FileSystem::listen.
  void listen(ChangeListener* listener);

 private:
  Keeper(Database& database, Journal& journal, FileWatch watch, Fd wake);
  void keep();
  int wait_milliseconds() const;
  bool wants_idle_checkpoint() const;
  Status tell_changes();
  void wake();

  void checkpoint_when_asked();
  void ask_for_checkpoint();
  Status checkpoint();

  Database& database_;
  Journal& journal_;
  FileWatch watch_;
  Fd wake_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> everything_changed_ = false;

  std::mutex listener_mutex_;  // held while the listener is called, so that it can be taken away safely
  ChangeListener* listener_ = nullptr;

  // Of keep()'s thread.
  std::uint64_t seen_epoch_ = 0;
  std::int64_t seen_seq_ = 0;
  int look_again_ = 0;                    // milliseconds; 0: no need
  std::uint32_t idle_checkpoint_of_ = 0;  // the log's pages at the last one; once is enough

  std::mutex checkpoint_mutex_;
  std::condition_variable checkpoint_asked_;
  bool wants_checkpoint_ = false;  // under checkpoint_mutex_
  std::unique_ptr<Database> checkpointer_;

  std::thread keeping_;
  std::thread checkpointing_;
};

}  // namespace warren
