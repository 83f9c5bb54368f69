// Hashes large attachments in a thread of its own, so that the relay goes on with other senders meanwhile.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "relay/attachments/attachment_store.h"

namespace warren::relay {

struct Hashed {
  std::string hash;
  Result<AttachmentStore::Verified> found;  // as AttachmentStore::verify
};

// Used by one thread. There is no other until something is wanted.
class AttachmentHasher {
 public:
  static Result<std::unique_ptr<AttachmentHasher>> open(const AttachmentStore& store);
  ~AttachmentHasher();  // stops in the middle of a file

  int fd() const { return event_.get(); }  // readable when there are results
  Status want(const std::string& hash);    // one after another; again is fine
  std::vector<Hashed> take();
  bool is_idle() const { return wanted_.empty(); }

 private:
  AttachmentHasher(const AttachmentStore& store, Fd event) : store_(store), event_(std::move(event)) {}
  void work();

  const AttachmentStore& store_;
  Fd event_;
  std::set<std::string> wanted_;  // by the owner, and not taken yet
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;  // under mutex_
  std::vector<Hashed> done_;       // under mutex_
  std::thread thread_;
};

}  // namespace warren::relay
