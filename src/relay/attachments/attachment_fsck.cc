#include <atomic>
#include <chrono>

#include <fmt/format.h>

#include "relay/attachments/attachment_store.h"
#include "relay/upkeep/fsck.h"

namespace warren::relay {
namespace {

constexpr std::size_t kPage = 1024;
constexpr std::chrono::hours kDay{24};

class Check {
 public:
  Check(Root& root, Ledger& ledger, Repair repair, Depth depth, const Config& config, FsckReport& report)
      : store_(root),
        ledger_(ledger),
        repair_(repair),
        depth_(depth),
        orphans_before_us_(ledger.clock().now_us() - std::chrono::microseconds(config.attachment_keep + kDay).count()),
        report_(report) {}

  Status references() {
    for (AttachmentReference after;;) {
      auto page = WARREN_TRY(ledger_.list_references(after, kPage));
      if (page.empty()) return Ok{};
      for (const AttachmentReference& one : page) WARREN_TRY(reference(one));
      after = page.back();
    }
  }

  Status files(const std::string& prefix) {
    Result<std::vector<HostEntry>> entries = store_.list(prefix);
    if (!entries.ok()) {
      report_.problems.push_back(fmt::format("attachments/{}: {}", prefix, entries.error().message()));
      return Ok{};
    }
    for (const HostEntry& entry : *entries) {
      bool belongs = is_attachment_hash(entry.name) && entry.name.starts_with(prefix);
      if (!belongs) {
        report_.problems.push_back(fmt::format("attachments/{}: {} is not an attachment", prefix, entry.name));
        continue;
      }
      WARREN_TRY(file(entry.name));
    }
    return Ok{};
  }

 private:
  // Only undelivered and unread messages need their attachments. A dead letter may lack one, perhaps because of that.
  Status reference(const AttachmentReference& one) {
    auto deliveries = WARREN_TRY(ledger_.list_deliveries(one.message_id));
    bool is_needed = false;
    for (const Delivery& delivery : deliveries) {
      DeliveryState state = delivery.state;
      is_needed = is_needed || (state != DeliveryState::kRead && state != DeliveryState::kAcked &&
                                state != DeliveryState::kNacked && state != DeliveryState::kDead);
    }
    if (!is_needed || store_.open(one.hash).ok()) return Ok{};
    report_.problems.push_back(fmt::format("message {}: attachment {} is missing", one.message_id, one.hash));
    return Ok{};
  }

  Status file(const std::string& hash) {
    Result<AttachmentStore::Opened> opened = store_.open(hash);
    if (!opened.ok()) {
      if (opened.error().code() == Code::kNotFound) return Ok{};  // removed meanwhile
      return wrong(hash, opened.error().message());
    }
    std::optional<AttachmentRow> row = WARREN_TRY(ledger_.find_attachment(hash));
    bool is_old = row && !row->is_referenced && row->unreferenced_since_us != 0 &&
                  row->identity.has_same_content_as(opened->identity);
    if (is_old && row->unreferenced_since_us < orphans_before_us_) return orphan(*row);
    if (depth_ == Depth::kNames) return Ok{};
    std::atomic<bool> stop = false;
    Result<AttachmentStore::Verified> found = store_.verify(hash, stop);
    if (!found.ok()) return wrong(hash, found.error().message());
    return found->is_right ? Status(Ok{}) : wrong(hash, "its content does not match its hash");
  }

  Status wrong(const std::string& hash, std::string_view why) {
    report_.problems.push_back(fmt::format("attachment {}: {}", hash, why));
    if (repair_ == Repair::kNo) return Ok{};
    WARREN_TRY(store_.set_aside(path_of_attachment(hash), hash));
    report_.repaired.push_back(fmt::format("attachment {} moved to attachments/.rejected", hash));
    return Ok{};
  }

  Status orphan(const AttachmentRow& row) {
    report_.problems.push_back(fmt::format("attachment {}: no message refers to it", row.hash));
    if (repair_ == Repair::kNo || !WARREN_TRY(store_.remove(row.hash, row.identity))) return Ok{};
    WARREN_TRY(ledger_.remove_attachment(row.hash));
    report_.repaired.push_back(fmt::format("attachment {} removed", row.hash));
    return Ok{};
  }

  AttachmentStore store_;
  Ledger& ledger_;
  Repair repair_;
  Depth depth_;
  std::int64_t orphans_before_us_;
  FsckReport& report_;
};

}  // namespace

Status fsck_attachments(Root& root, Ledger& ledger, Repair repair, Depth depth, FsckReport& report) {
  Result<Config> config = root.read_config();
  if (!config.ok()) return config.error();
  Check check(root, ledger, repair, depth, *config, report);
  for (int prefix = 0; prefix < kAttachmentPrefixes; ++prefix) WARREN_TRY(check.files(fmt::format("{:02x}", prefix)));
  return check.references();  // last: files that were moved aside are missing now
}

}  // namespace warren::relay
