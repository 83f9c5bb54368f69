// Syncing many files at once.
//
// One after another each file would wait for a journal commit of its own; together they share them (measured on ext4,
// 64 files: 50 µs a file instead of 1,300). So threads do it, made when they are first needed and kept.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren::relay {

// Files being synced. The files of begin() belong to it, and are closed when they are synced.
struct SyncBatch {
  std::vector<Fd> files;
  std::vector<int> numbers;
  std::size_t next = 0;  // these four under the pool's mutex
  std::size_t unfinished = 0;
  int failed = 0;
  bool wakes = false;  // the pool's fd(), when it is over
};

// Thread-safe.
class SyncPool {
 public:
  SyncPool();
  ~SyncPool();  // waits for what was begun

  Status sync(std::span<const int> files);  // of each; the first error
  // Does not wait. The first are closed when they are synced; `kept` must stay open until then.
  std::shared_ptr<SyncBatch> begin(std::vector<Fd> files, std::span<const int> kept = {});
  bool is_over(const SyncBatch& batch);
  Status wait(SyncBatch& batch);

  int fd() const { return wake_.get(); }  // readable when something begun is over
  void clear();                           // not readable any more

 private:
  void add(const std::shared_ptr<SyncBatch>& batch, std::size_t helpers);
  bool sync_one(SyncBatch& batch, std::unique_lock<std::mutex>& lock);  // whether there was one
  void work();

  Fd wake_;
  std::mutex mutex_;
  std::condition_variable work_;                    // for idle threads
  std::condition_variable over_;                    // for those that wait
  std::deque<std::shared_ptr<SyncBatch>> batches_;  // with files nobody syncs yet
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  std::size_t waiting_ = 0;
  bool is_ending_ = false;
};

}  // namespace warren::relay
