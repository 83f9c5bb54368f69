#include "relay/attachments/attachment_sweep.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

namespace warren::relay {
namespace {

constexpr std::size_t kReferencePage = 256;
constexpr std::uint64_t kRemovedPerStep = 64;  // each unlink may take a millisecond
constexpr int kPassesInKeepTime = 12;
constexpr std::int64_t kJumpUs = 60'000'000;  // less is mere drift

}  // namespace

AttachmentSweep::AttachmentSweep(const AttachmentStore& store, Ledger& ledger, const Config& config, Clock& clock,
                                 Log& log)
    : store_(store),
      ledger_(ledger),
      config_(config),
      clock_(clock),
      log_(log),
      keep_ms_(config.attachment_keep.count()),
      last_wall_us_(clock.now_us()),
      last_ns_(clock.boottime_ns()) {}

void AttachmentSweep::start_pass(std::int64_t keep_ms) {
  keep_ms_ = keep_ms;
  is_running_ = false;
  at_ns_ = 0;
}

bool AttachmentSweep::step() {
  if (clock_.monotonic_ns() < at_ns_) return false;
  Status done = run_step();
  if (!done.ok()) {
    log_.note(Severity::kError, "sweep_failed", {{"error", done.error().message()}});
    finish();
  }
  return true;
}

Status AttachmentSweep::run_step() {
  if (!is_running_) {
    pass_ = {.keep_us = keep_ms_ * 1000};
    is_running_ = true;
    WARREN_TRY(follow_clock());
  }
  switch (pass_.stage) {
    case Pass::Stage::kReferences: return end_references();
    case Pass::Stage::kFiles:
      if (WARREN_TRY(check_files(fmt::format("{:02x}", pass_.prefix)))) ++pass_.prefix;
      if (pass_.prefix == kAttachmentPrefixes) pass_.stage = Pass::Stage::kStrays;
      return Ok{};
    case Pass::Stage::kStrays:
      WARREN_TRY(remove_strays());
      finish();
      return Ok{};
  }
  return Ok{};
}

void AttachmentSweep::finish() {
  if (pass_.removed > 0) {
    log_.note(Severity::kInfo, "attachments_collected", {{"files", pass_.removed}, {"bytes", pass_.removed_bytes}});
  }
  is_running_ = false;
  keep_ms_ = config_.attachment_keep.count();
  std::chrono::nanoseconds wait = std::max(config_.rescan, config_.attachment_keep / kPassesInKeepTime);
  at_ns_ = clock_.monotonic_ns() + wait.count();
}

// Times in the ledger are wall times, so that they survive a restart. The time since the boot shows when the wall clock
// was set.
Status AttachmentSweep::follow_clock() {
  std::int64_t wall_us = clock_.now_us();
  std::int64_t ns = clock_.boottime_ns();
  std::int64_t jump_us = (wall_us - last_wall_us_) - (ns - last_ns_) / 1000;
  last_wall_us_ = wall_us;
  last_ns_ = ns;
  if (std::abs(jump_us) < kJumpUs) return Ok{};
  auto transaction = WARREN_TRY(ledger_.begin());
  WARREN_TRY(ledger_.shift_unreferenced(jump_us));
  return transaction.commit();
}

Status AttachmentSweep::end_references() {
  auto page = WARREN_TRY(ledger_.list_references(pass_.after, kReferencePage));
  if (page.size() < kReferencePage) pass_.stage = Pass::Stage::kFiles;
  std::erase_if(page, [&](const AttachmentReference& one) {
    pass_.after = one;
    return one.is_open;
  });
  if (page.empty()) return Ok{};
  auto transaction = WARREN_TRY(ledger_.begin());
  for (const AttachmentReference& one : page) WARREN_TRY(ledger_.remove_reference(one));
  return transaction.commit();
}

Result<bool> AttachmentSweep::check_files(const std::string& prefix) {
  std::vector<AttachmentRow> known = WARREN_TRY(ledger_.list_attachments(prefix));
  Result<std::vector<HostEntry>> listed = store_.list(prefix);
  if (!listed.ok()) {  // a link or a file, which is moved aside when an attachment there is needed
    log_.note(Severity::kWarning, "attachments_unreadable",
              {{"directory", prefix}, {"error", listed.error().message()}});
    return true;
  }
  if (known.empty() && listed->empty()) return true;
  pass_.removed += store_.remove_strays(prefix, *listed, strays_before_ns());
  std::map<std::string, AttachmentRow> rows;
  for (AttachmentRow& row : known) rows.emplace(row.hash, std::move(row));
  std::uint64_t removed_before = pass_.removed;
  auto transaction = WARREN_TRY(ledger_.begin());
  for (const HostEntry& entry : *listed) {
    if (!is_attachment_hash(entry.name) || !entry.name.starts_with(prefix)) continue;
    WARREN_TRY(check_file(entry.name, identity_of(entry.attributes), rows));
    if (pass_.removed - removed_before < kRemovedPerStep) continue;
    WARREN_TRY(transaction.commit());
    return false;
  }
  for (const auto& [hash, row] : rows) {  // without a file
    if (!row.is_referenced) WARREN_TRY(ledger_.remove_attachment(hash));
  }
  WARREN_TRY(transaction.commit());
  return true;
}

Status AttachmentSweep::check_file(const std::string& hash, const FileIdentity& now,
                                   std::map<std::string, AttachmentRow>& rows) {
  std::int64_t now_us = clock_.now_us();
  auto found = rows.extract(hash);
  bool is_new = found.empty();
  AttachmentRow row = is_new ? AttachmentRow{hash, now} : std::move(found.mapped());
  if (row.is_referenced) return Ok{};
  bool is_changed = !row.identity.has_same_content_as(now);
  bool is_waiting = row.unreferenced_since_us != 0 && row.unreferenced_since_us <= now_us && !is_changed;
  if (!is_waiting) {  // its keep time starts now
    if (is_changed) row.is_verified = false;
    row.identity = is_changed ? now : row.identity;
    row.unreferenced_since_us = now_us;
  }
  if (now_us - row.unreferenced_since_us < pass_.keep_us) {
    return is_waiting ? Status(Ok{}) : ledger_.put_attachment(row);
  }
  if (!WARREN_TRY(store_.remove(hash, row.identity))) return Ok{};
  ++pass_.removed;
  pass_.removed_bytes += now.size;
  return ledger_.remove_attachment(hash);
}

// Always by the configured keep time: a draft may still be being written.
std::int64_t AttachmentSweep::strays_before_ns() {
  return (clock_.now_us() - std::chrono::microseconds(config_.attachment_keep).count()) * 1000;
}

Status AttachmentSweep::remove_strays() {
  for (const std::string dir : {".pending", ".rejected"}) {
    std::vector<HostEntry> entries = WARREN_TRY(store_.list(dir));
    pass_.removed += store_.remove_strays(dir, entries, strays_before_ns());
  }
  return Ok{};
}

}  // namespace warren::relay
