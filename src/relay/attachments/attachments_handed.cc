// Attachments of agents that cannot reach the store.
#include <chrono>

#include <fmt/format.h>

#include "relay/attachments/attachments.h"
#include "relay/protocol/attachment.h"

namespace warren::relay {

Result<Readiness> Attachments::take_in(const Message& message, const std::string& sender, Confined confined) {
  if (message.find(kAttachmentHeader) == nullptr) return Readiness::kReady;
  std::vector<Attachment> wanted = WARREN_TRY(attachments_of(message));
  Readiness all = Readiness::kReady;
  for (const Attachment& attachment : wanted) {
    Readiness one = WARREN_TRY(take_in_one(attachment.hash, sender, confined));
    if (one == Readiness::kWaits) all = one;
  }
  return all;
}

// A confined sender must have the content, not only know its hash: otherwise it could send itself what belongs to
// others. So the file is read even if the store has it.
Result<Readiness> Attachments::take_in_one(const std::string& hash, const std::string& sender, Confined confined) {
  Result<AttachmentStore::Opened> found = handover_.find_sent(sender, hash);
  bool is_absent = !found.ok() && found.error().code() == Code::kNotFound;
  if (is_absent && confined == Confined::kNo) return Readiness::kReady;  // check() looks for it in the store
  if (is_absent) {
    return Error(Code::kNotFound, fmt::format("'outbox/.attachments' has no file for {}", reference_of(hash)));
  }
  AttachmentStore::Opened sent = WARREN_TRY(std::move(found));
  if (sent.identity.size > config_.attachment_bytes_max) {
    return Error(Code::kTooLarge, fmt::format("attachment {}: {} bytes exceed the limit of {}", reference_of(hash),
                                              sent.identity.size, config_.attachment_bytes_max));
  }
  std::string key = fmt::format("{}>{}", sender, hash);
  auto known = taken_in_.find(key);
  if (known != taken_in_.end() && known->second == sent.identity && store_.open(hash).ok()) return Readiness::kReady;
  auto work = [this, sender, hash, most = config_.attachment_bytes_max](const std::atomic<bool>& stop) {
    return handover_.take_in(sender, hash, most, stop);
  };
  auto done = hashed_.extract(key);
  bool is_done = !done.empty() && (!done.mapped().ok() || done.mapped()->identity == sent.identity);
  if (!is_done && sent.identity.size > kInlineBytes) {
    WARREN_TRY(hasher_->request(key, work));
    waiters_[key].insert(sender);
    return Readiness::kWaits;
  }
  AttachmentStore::Verified taken = WARREN_TRY(is_done ? std::move(done.mapped()) : work(kNeverStop));
  if (!taken.is_right) {
    return Error(Code::kCorrupt,
                 fmt::format("the content of attachment {} does not match its hash", reference_of(hash)));
  }
  if (taken_in_.size() >= kRememberedAttachments) taken_in_.clear();
  taken_in_.insert_or_assign(key, taken.identity);
  return Readiness::kReady;
}

Result<Readiness> Attachments::hand_out(const Message& message, const std::string& recipient,
                                        const std::string& waiter) {
  if (message.find(kAttachmentHeader) == nullptr || !handover_.is_wanted(recipient)) return Readiness::kReady;
  std::vector<Attachment> wanted = WARREN_TRY(attachments_of(message));
  Readiness all = Readiness::kReady;
  for (const Attachment& attachment : wanted) {
    Result<Readiness> one = hand_out_one(attachment.hash, recipient, waiter);
    if (one.ok() && *one == Readiness::kWaits) all = Readiness::kWaits;
    if (one.ok()) continue;
    if (is_shortage(one.error()) || one.error().code() == Code::kIo) return one;
    log_.note(Severity::kWarning, "attachment_not_handed",
              {{"agent", recipient}, {"attachment", attachment.hash}, {"error", one.error().message()}});
  }
  return all;
}

Result<Readiness> Attachments::hand_out_one(const std::string& hash, const std::string& recipient,
                                            const std::string& waiter) {
  std::string key = fmt::format("{}<{}", recipient, hash);
  auto done = hashed_.extract(key);
  if (!done.empty()) {
    WARREN_TRY(std::move(done.mapped()));
    return Readiness::kReady;
  }
  AttachmentStore::Opened stored = WARREN_TRY(store_.open(hash));
  if (handover_.is_handed(recipient, hash, stored.identity.size)) return Readiness::kReady;
  if (stored.identity.size <= kInlineBytes) {
    WARREN_TRY(handover_.hand_out(recipient, hash, kNeverStop));
    return Readiness::kReady;
  }
  auto work = [this, recipient, hash](const std::atomic<bool>& stop) -> Result<AttachmentStore::Verified> {
    WARREN_TRY(handover_.hand_out(recipient, hash, stop));
    return AttachmentStore::Verified{};
  };
  WARREN_TRY(hasher_->request(key, work));
  waiters_[key].insert(waiter);
  return Readiness::kWaits;
}

// A copy is needed as long as its original is: both are for the same messages.
void Attachments::sweep_handed() {
  Result<std::vector<std::string>> agents = root_.list_agents();
  if (!agents.ok()) return;
  std::int64_t before_ns = (clock_.now_us() - std::chrono::microseconds(config_.attachment_keep).count()) * 1000;
  for (const std::string& agent : *agents) handover_.sweep(agent, before_ns);
}

}  // namespace warren::relay
