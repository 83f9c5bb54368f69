#include "relay/attachments/attachments.h"

#include <fmt/format.h>

#include "relay/protocol/attachment.h"

namespace warren::relay {

Result<std::unique_ptr<Attachments>> Attachments::open(const Root& root, Ledger& ledger, const Config& config,
                                                       Clock& clock, Log& log) {
  std::unique_ptr<Attachments> out(new Attachments(root, ledger, config, clock, log));
  out->hasher_ = WARREN_TRY(AttachmentHasher::open(out->store_));
  WARREN_TRY(out->store_.finish_removals().within("attachments"));
  if (ledger.homes() != nullptr) WARREN_TRY(out->open_carrier(root));
  return out;
}

Result<Readiness> Attachments::check(const Message& message, const std::string& waiter) {
  std::vector<Attachment> wanted = WARREN_TRY(attachments_of(message));
  Readiness all = Readiness::kReady;
  for (const Attachment& attachment : wanted) {
    Readiness one = WARREN_TRY(check_one(attachment.hash, waiter));
    if (one == Readiness::kWaits) all = one;
  }
  return all;
}

Result<Readiness> Attachments::check_one(const std::string& hash, const std::string& waiter) {
  Result<AttachmentStore::Opened> opened = store_.open(hash);
  if (opened.ok()) {
    WARREN_TRY(store_.make_private(hash));
    opened = store_.open(hash);
  }
  if (!opened.ok()) return reject(hash, std::move(opened).take_error());
  const FileIdentity& now = opened->identity;
  if (now.size > config_.attachment_bytes_max) {
    return Error(Code::kTooLarge, fmt::format("attachment {}: {} bytes exceed the limit of {}", reference_of(hash),
                                              now.size, config_.attachment_bytes_max));
  }
  auto verified = verified_.find(hash);
  if (verified != verified_.end() && verified->second == now) return Readiness::kReady;
  std::optional<AttachmentRow> known = WARREN_TRY(ledger_.find_attachment(hash));
  if (known && known->is_verified && known->identity == now) return Readiness::kReady;
  auto hashed = hashed_.extract(hash);
  if (!hashed.empty() && !hashed.mapped().ok()) return std::move(hashed.mapped()).take_error();
  if (!hashed.empty() && hashed.mapped()->identity == now) return judge(hash, *hashed.mapped());
  if (now.size <= kInlineBytes) {
    AttachmentStore::Verified found = WARREN_TRY(store_.verify(hash, kNeverStop));
    return judge(hash, found);
  }
  WARREN_TRY(hasher_->request(hash));
  waiters_[hash].insert(waiter);
  return Readiness::kWaits;
}

Result<Readiness> Attachments::judge(const std::string& hash, const AttachmentStore::Verified& found) {
  if (!found.is_right) {
    return reject(hash, Error(Code::kCorrupt,
                              fmt::format("the content of attachment {} does not match its hash", reference_of(hash))));
  }
  if (verified_.size() >= kRememberedAttachments) verified_.clear();
  verified_.insert_or_assign(hash, found.identity);
  return Readiness::kReady;
}

// Moves a wrong file aside, to make room for the right one.
Error Attachments::reject(const std::string& hash, Error why) {
  if (why.code() != Code::kCorrupt && why.code() != Code::kDenied) return why;
  std::string path = path_of_attachment(hash);
  Status aside = store_.set_aside(path, hash);
  bool is_parent = !aside.ok() && (aside.error().code() == Code::kLoop || aside.error().code() == Code::kNotDirectory);
  if (is_parent) aside = store_.set_aside(path.substr(0, path.find('/')), hash);
  Json details = {{"attachment", hash}, {"error", why.message()}};
  if (!aside.ok()) details["not_moved"] = aside.error().message();
  log_.audit("wrong_attachment", details);
  return why;
}

std::set<std::string> Attachments::take_hashed() {
  std::set<std::string> ready;
  if (carrier_) take_carried(ready);
  if (hasher_->is_idle()) return ready;
  for (Hashed& one : hasher_->take()) {
    auto waiting = waiters_.extract(one.key);
    if (!waiting.empty()) ready.merge(waiting.mapped());
    if (hashed_.size() >= kRememberedAttachments) hashed_.clear();
    hashed_.insert_or_assign(std::move(one.key), std::move(one.found));
  }
  return ready;
}

bool Attachments::is_waiting(const std::string& waiter) const {
  for (const auto& [hash, waiting] : waiters_) {
    if (waiting.contains(waiter)) return true;
  }
  return false;
}

Status Attachments::record(const Message& message, std::string_view message_id) {
  Result<std::vector<Attachment>> all = attachments_of(message);
  if (!all.ok()) return Ok{};  // it was refused for this reason
  return record(*all, message_id);
}

Status Attachments::record(const std::vector<Attachment>& attachments, std::string_view message_id) {
  for (const Attachment& attachment : attachments) {
    if (published_.erase(attachment.hash) > 0 && !WARREN_TRY(carried_->hold(attachment.hash))) {
      return Error(Code::kBusy, fmt::format("attachment {} must be published again", reference_of(attachment.hash)));
    }
    auto verified = verified_.extract(attachment.hash);  // after a rollback it is hashed again
    if (!verified.empty()) {
      AttachmentRow row{attachment.hash, verified.mapped(), true, 0};
      WARREN_TRY(ledger_.put_attachment(row));
    }
    WARREN_TRY(ledger_.add_reference(attachment.hash, message_id));
  }
  return Ok{};
}

bool Attachments::sweep() {
  if (!hasher_->is_idle()) return false;
  hashed_.clear();  // for messages that were withdrawn
  bool has_worked = sweep_.step();
  if (has_worked && !sweep_.is_running()) sweep_handed();
  if (carrier_ && carrier_->is_idle() && has_worked && !sweep_.is_running()) {
    Status dropped = drop_carried();
    if (!dropped.ok()) log_.note(Severity::kError, "sweep_failed", {{"error", dropped.error().message()}});
  }
  return has_worked;
}

}  // namespace warren::relay
