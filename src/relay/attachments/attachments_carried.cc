// Attachments of messages to and from other homes of a shared ledger.
#include <chrono>

#include <fmt/format.h>

#include "relay/attachments/attachments.h"
#include "relay/ledger/open_ledger.h"

namespace warren::relay {
namespace {

constexpr std::size_t kDroppedPerSweep = 64;

}  // namespace

Status Attachments::open_carrier(const Root& root) {
  carried_ = WARREN_TRY(CarriedAttachments::open(ledger_.engine(), ledger_.homes()->id(), clock_));
  // A copy: it is called by the carrier's thread.
  auto open = [this, &root, config = config_] { return open_ledger(root, config, LedgerUse::kRequest, clock_); };
  carrier_ = WARREN_TRY(
      Carrier::open(store_, clock_, log_, {.fetch_bytes_max = config_.attachment_bytes_max, .open_ledger = open}));
  return Ok{};
}

Result<Readiness> Attachments::publish(const Message& message, const std::string& waiter) {
  std::vector<Attachment> wanted = WARREN_TRY(attachments_of(message));
  Readiness all = Readiness::kReady;
  for (const Attachment& attachment : wanted) {
    AttachmentStore::Opened opened = WARREN_TRY(store_.open(attachment.hash));
    if (opened.identity.size > config_.attachment_carry_bytes_max) {
      return Error(
          Code::kTooLarge,
          fmt::format("attachment {}: {} bytes exceed the limit of {} for attachments to another relay",
                      reference_of(attachment.hash), opened.identity.size, config_.attachment_carry_bytes_max));
    }
    Readiness one = WARREN_TRY(publish_one(attachment.hash, waiter));
    if (one == Readiness::kWaits) all = one;
  }
  return all;
}

Result<Readiness> Attachments::publish_one(const std::string& hash, const std::string& waiter) {
  if (published_.contains(hash)) return Readiness::kReady;
  if (auto failed = failed_.extract(hash); !failed.empty()) return std::move(failed.mapped());
  WARREN_TRY(carrier_->request(CarryKind::kPublish, hash));
  waiters_[hash].insert(waiter);
  return Readiness::kWaits;
}

Result<Readiness> Attachments::publish_for_others(const std::string& hash) {
  if (!carrier_) return Error(Code::kUnsupported, "the ledger of this relay is not shared");
  Readiness ready = WARREN_TRY(publish_one(hash, ""));
  if (ready == Readiness::kReady) published_.erase(hash);
  return ready;
}

Result<Readiness> Attachments::check_or_fetch(const Message& message, const std::string& waiter) {
  if (!carrier_) return check(message, waiter);
  std::vector<Attachment> wanted = WARREN_TRY(attachments_of(message));
  Readiness all = Readiness::kReady;
  for (const Attachment& attachment : wanted) {
    Result<Readiness> one = check_one(attachment.hash, waiter);
    // A wrong file was moved aside, so the right one can be fetched.
    bool is_missing = !one.ok() && (one.error().code() == Code::kNotFound || one.error().code() == Code::kCorrupt ||
                                    one.error().code() == Code::kDenied);
    if (is_missing) one = fetch_one(attachment.hash, waiter);
    if (WARREN_TRY(std::move(one)) == Readiness::kWaits) all = Readiness::kWaits;
  }
  return all;
}

Result<Readiness> Attachments::fetch_one(const std::string& hash, const std::string& waiter) {
  if (auto failed = failed_.extract(hash); !failed.empty()) return std::move(failed.mapped());
  WARREN_TRY(carrier_->request(CarryKind::kFetch, hash));
  waiters_[hash].insert(waiter);
  return Readiness::kWaits;
}

void Attachments::note_arrived(const std::vector<Attachment>& attachments) {
  if (!carrier_) return;
  for (const Attachment& attachment : attachments) arrived_.insert(attachment.hash);
}

void Attachments::take_carried(std::set<std::string>& ready) {
  for (const std::string& hash : std::exchange(arrived_, {})) {
    carrier_->request(CarryKind::kDrop, hash).ignore("a sweep drops it later");
  }
  if (carrier_->is_idle()) return;
  for (CarryResult& one : carrier_->take()) {
    if (one.kind == CarryKind::kDrop) continue;
    auto waiting = waiters_.extract(one.hash);
    if (!waiting.empty()) ready.merge(waiting.mapped());
    if (!one.file.ok()) {
      log_.note(Severity::kWarning, "attachment_not_carried",
                {{"attachment", one.hash}, {"error", one.file.error().message()}});
      failed_.insert_or_assign(one.hash, std::move(one.file).take_error());
    } else if (one.kind == CarryKind::kPublish) {
      published_.insert(one.hash);
    } else {
      verified_.insert_or_assign(one.hash, *one.file);  // hashed while it was fetched
    }
  }
}

// Drops what was left in the ledger by a killed relay, or by two relays that fetched the last copies at the same time.
Status Attachments::drop_carried() {
  published_.clear();  // for messages that were withdrawn
  failed_.clear();
  auto transaction = WARREN_TRY(ledger_.begin());
  WARREN_TRY(carried_->drop_parts());
  std::int64_t before_us = clock_.now_us() - std::chrono::microseconds(config_.attachment_keep).count();
  std::vector<std::string> old = WARREN_TRY(carried_->list_before(before_us, kDroppedPerSweep));
  for (const std::string& hash : old) WARREN_TRY(carried_->drop(hash));
  return transaction.commit();
}

}  // namespace warren::relay
