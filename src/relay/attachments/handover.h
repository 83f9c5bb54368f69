// Attachments of agents that cannot reach the store, because they are sandboxed or have their own user.
//
// Such an agent puts a file that it sends into outbox/.attachments/HASH, from where the relay copies it into the store.
// A file that is sent to it is copied to inbox/.attachments/HASH before the message is delivered. So it sees what it
// sent and what it was sent, and nothing else. docs/design/relay.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "relay/attachments/attachment_store.h"
#include "relay/root/root.h"

namespace warren::relay {

// Thread-safe. The root and the store must outlive it.
class Handover {
 public:
  Handover(const Root& root, const AttachmentStore& store) : root_(root), store_(store) {}

  // A file in the agent's outbox. kNotFound; kDenied: a link, or a file of another user.
  Result<AttachmentStore::Opened> find_sent(std::string_view agent, std::string_view hash) const;
  // Copies it into the store. `is_right`: its content matches the hash.
  Result<AttachmentStore::Verified> take_in(std::string_view agent, std::string_view hash, std::uint64_t size_bytes_max,
                                            const std::atomic<bool>& stop) const;

  // Whether the agent's inbox has a directory for attachments.
  bool is_wanted(std::string_view agent) const;
  bool is_handed(std::string_view agent, std::string_view hash, std::uint64_t size) const;
  // Copies a file of the store to the agent's inbox, durably.
  Status hand_out(std::string_view agent, std::string_view hash, const std::atomic<bool>& stop) const;

  // Removes files in the agent's inbox that the store no longer has, and files in its outbox that have not changed
  // since `ctime_ns`. Returns how many.
  std::uint64_t sweep(std::string_view agent, std::int64_t ctime_ns) const;

 private:
  const Root& root_;
  const AttachmentStore& store_;
};

}  // namespace warren::relay
