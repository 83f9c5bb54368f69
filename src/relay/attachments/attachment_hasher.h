// Hashes and copies large attachments in a background thread, so that the relay can serve other senders meanwhile.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/threads/mailbox.h"
#include "os/threads/worker.h"
#include "relay/attachments/attachment_store.h"

namespace warren::relay {

struct Hashed {
  std::string key;  // the hash, or the key of another job
  Result<AttachmentStore::Verified> found;
};

// For one thread. The background thread starts with the first request.
class AttachmentHasher {
 public:
  static Result<std::unique_ptr<AttachmentHasher>> open(const AttachmentStore& store);  // must outlive the hasher

  // Requests are handled in order; one that is already pending is not repeated. Destruction interrupts the current one.
  Status request(const std::string& hash);  // AttachmentStore::verify
  using Work = std::function<Result<AttachmentStore::Verified>(const std::atomic<bool>& stop)>;
  Status request(const std::string& key, Work work);
  int fd() const { return results_->fd(); }  // readable when there are results
  std::vector<Hashed> take();
  bool is_idle() const { return requested_.empty(); }

 private:
  using Results = Mailbox<Hashed>;

  AttachmentHasher(const AttachmentStore& store, std::unique_ptr<Results> results)
      : store_(store), results_(std::move(results)) {}

  const AttachmentStore& store_;
  std::set<std::string> requested_;  // results not taken yet
  std::unique_ptr<Results> results_;
  Worker worker_;
};

}  // namespace warren::relay
