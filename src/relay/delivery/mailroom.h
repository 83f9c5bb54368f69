// Puts files into inboxes, each once.
//
// A file is first staged in tmp/deliveries; then the ledger's transaction says that it is to be delivered; then it is
// renamed into the inbox. So when the relay was killed, a pending delivery whose staged file is gone has happened, even
// if the receiver has taken it since, and one whose file is there has not. For this to hold after a power cut as well,
// either the staged file is synced before the transaction, or the transaction has its content.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "relay/delivery/sync_pool.h"
#include "relay/ledger/ledger.h"
#include "relay/root/root.h"

namespace warren::relay {

// One thread.
class Mailroom {
 public:
  explicit Mailroom(Root& root) : root_(root) {}

  // Writes the file; durable after sync_staged(). Or never: then the ledger must have the content.
  Status stage(const Delivery& delivery, std::string_view content);
  Status stage_unsynced(const Delivery& delivery, std::string_view content);
  std::shared_ptr<SyncBatch> begin_sync_staged();  // does not wait: see syncs()
  Status sync_staged();
  void unstage(const Delivery& delivery);

  // Renames into the inbox. kNotFound: the recipient's inbox is gone.
  Status publish(const Delivery& delivery);
  // Whether the recipient has exactly that, or has put it aside.
  bool is_published(const Delivery& delivery, std::string_view content) const;
  SyncPool& syncs() { return syncs_; }

  bool is_staged(const Delivery& delivery) const;
  Result<std::vector<std::string>> list_staged() const;  // file names in tmp/deliveries
  void remove_staged(const std::string& file);

  // Takes a processed file out of the outbox, to `path` (archive/DATE/AGENT/FILE). Only the same bytes can stand there
  // already: then it is removed.
  Status archive(std::string_view agent, const std::string& file, const std::string& path);

  void forget_dirs() { dirs_.clear(); }  // else they stay open, up to some number

 private:
  Result<int> dir(const std::string& relative);
  Result<Fd> write_staged(const Delivery& delivery, std::string_view content);
  Result<Fd> open_sparingly(int dir, const std::string& relative, int flags);

  Root& root_;
  SyncPool syncs_;
  std::vector<Fd> open_;            // staged, not synced yet
  std::map<std::string, Fd> dirs_;  // inboxes, outboxes and archives
};

std::string staged_name(std::string_view inbox_name, std::string_view recipient);

}  // namespace warren::relay
