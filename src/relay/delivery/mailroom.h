// Puts files into inboxes, each once.
//
// A file is first staged in tmp/deliveries; then a transaction of the ledger records the delivery as pending; then the
// file is renamed into the inbox. So after the relay was killed, a pending delivery without a staged file was made,
// even if the receiver has taken the file since; one with a staged file was not. For this to hold after a power cut as
// well, either the staged file is synced before the transaction, or the transaction contains its content.
#pragma once

#include <map>
#include <memory>
#include <optional>
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

  // Writes the file. stage(): durable after sync_staged(). stage_unsynced(): never synced, so the ledger must have the
  // content.
  Status stage(const Delivery& delivery, std::string_view content);
  Status stage_unsynced(const Delivery& delivery, std::string_view content);
  std::shared_ptr<SyncRequest> begin_sync_staged();  // does not wait; see syncs()
  Status sync_staged();
  void unstage(const Delivery& delivery);

  // Renames the staged file into the inbox. kNotFound: the recipient's inbox is gone.
  Status publish(const Delivery& delivery);
  // Renames it into another directory of the recipient.
  Status publish_into(int dir, const Delivery& delivery);
  // Whether the file is in the recipient's inbox with exactly this content, or in `.done`.
  bool is_published(const Delivery& delivery, std::string_view content) const;
  SyncPool& syncs() { return syncs_; }

  bool is_staged(const Delivery& delivery) const;
  Result<std::vector<std::string>> list_staged() const;  // file names in tmp/deliveries
  void remove_staged(const std::string& file);

  // Moves a processed file from the outbox to `path` (archive/DATE/AGENT/FILE). If `path` exists with the same bytes,
  // the file in the outbox is removed; with others, it is kept as PATH.1, PATH.2, etc.
  Status archive(std::string_view agent, const std::string& file, const std::string& path);

  void forget_dirs() { dirs_.clear(); }  // otherwise they stay open, up to a limit

 private:
  Result<int> dir(const std::string& relative, const std::optional<Owner>& owner = std::nullopt);
  Status give(const Delivery& delivery, const Owner& owner);
  Result<Fd> write_staged(const Delivery& delivery, std::string_view content);
  Result<Fd> open_sparingly(int dir, const std::string& relative, int flags);

  Root& root_;
  SyncPool syncs_;
  std::vector<Fd> open_;            // staged, not synced yet
  std::map<std::string, Fd> dirs_;  // inboxes, outboxes and archives
};

std::string staged_name(std::string_view inbox_name, std::string_view recipient);

}  // namespace warren::relay
