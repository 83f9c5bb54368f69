#include "relay/delivery/fresh_deliveries.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "relay/delivery/inbox_file.h"
#include "relay/delivery/mailroom.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kRestNs = 20'000'000;
constexpr std::int64_t kReadNs = 2'000'000'000;
constexpr std::int64_t kReadStepNs = 25'000'000;  // pause between groups of recipients, since senders need the disk too
constexpr std::size_t kReadDirs = 8;
constexpr std::size_t kMost = 4096;        // above that, files are synced sooner
constexpr std::size_t kFilesAtOnce = 128;  // descriptors: far below any usual limit
constexpr std::size_t kBatchesAtOnce = 4;
constexpr std::int64_t kShortageNs = 100'000'000;

// Any other error was caused by the receiver, which has therefore seen the file.
bool is_disk_trouble(const Error& error) { return error.code() == Code::kIo; }

}  // namespace

void FreshDeliveries::add(Delivery delivery, Backed backed) {
  std::string key = staged_name(delivery.inbox_name, delivery.recipient);
  resting_.push_back({clock_.monotonic_ns() + kRestNs, key});
  all_.insert_or_assign(std::move(key), Fresh{std::move(delivery), backed});
}

bool FreshDeliveries::contains(std::string_view recipient, std::string_view inbox_name) const {
  return all_.contains(staged_name(inbox_name, recipient));
}

std::optional<Delivery> FreshDeliveries::take(std::string_view recipient, std::string_view inbox_name) {
  auto found = all_.extract(staged_name(inbox_name, recipient));
  return found ? std::optional(std::move(found.mapped().delivery)) : std::nullopt;
}

std::optional<Delivery> FreshDeliveries::take_read(std::string_view recipient, std::string_view inbox_name) {
  auto known = all_.find(staged_name(inbox_name, recipient));
  if (known == all_.end() || known->second.backed == Backed::kNo) return std::nullopt;
  std::optional<Delivery> found = take(recipient, inbox_name);
  add_read(*found);
  return found;
}

void FreshDeliveries::add_read(const Delivery& delivery) { note_read(delivery.recipient, stamp_of(delivery)); }

void FreshDeliveries::note_read(const std::string& recipient, std::int64_t stamp) {
  if (read_.empty()) read_at_ns_ = clock_.monotonic_ns() + kReadNs;
  read_[recipient].push_back(stamp);
}

std::int64_t FreshDeliveries::wake_at_ns() const {
  return std::min(read_at_ns_, resting_.empty() ? INT64_MAX : resting_.front().until_ns);
}

bool FreshDeliveries::is_due(Wait wait) {
  while (!resting_.empty() && !all_.contains(resting_.front().key)) resting_.pop_front();
  if (resting_.empty()) return false;
  return wait == Wait::kForAll || all_.size() > kMost || resting_.front().until_ns <= clock_.monotonic_ns();
}

std::vector<FreshOutcome> FreshDeliveries::collect(Wait wait) {
  std::vector<FreshOutcome> outcomes;
  while (is_due(wait)) {
    if (syncing_.size() == kBatchesAtOnce) end_oldest(outcomes);
    if (!begin(wait, outcomes)) break;
  }
  bool is_read_due = !read_.empty() && (wait == Wait::kForAll || read_at_ns_ <= clock_.monotonic_ns());
  while (is_read_due && !read_.empty()) {
    if (syncing_.size() == kBatchesAtOnce) end_oldest(outcomes);
    if (!begin_read() || wait == Wait::kNo) break;
  }
  while (!syncing_.empty() && (wait == Wait::kForAll || syncs_.is_over(*syncing_.front().batch))) end_oldest(outcomes);
  return outcomes;
}

// An inbox or `.done` that cannot be opened is gone or not ours, and so are the files that were in it.
bool FreshDeliveries::begin_read() {
  Syncing syncing;
  std::vector<Fd> dirs;
  bool is_short = false;
  while (!read_.empty() && dirs.size() < kReadDirs) {
    auto of_recipient = read_.begin();
    Result<Fd> inbox = root_.open_inbox(of_recipient->first);
    Result<Fd> done =
        inbox.ok() ? open_below(inbox->get(), ".done", O_RDONLY | O_DIRECTORY) : Result<Fd>(inbox.error());
    is_short = !done.ok() && done.error().code() == Code::kLimit;
    if (is_short) break;
    if (done.ok()) dirs.push_back(std::move(done).take_value());
    if (inbox.ok()) dirs.push_back(std::move(inbox).take_value());
    syncing.read.insert(read_.extract(of_recipient));
  }
  std::int64_t pause_ns = is_short ? kShortageNs : kReadStepNs;
  read_at_ns_ = read_.empty() ? INT64_MAX : clock_.monotonic_ns() + pause_ns;
  if (syncing.read.empty()) return !is_short;
  syncing.batch = syncs_.begin(std::move(dirs));
  syncing_.push_back(std::move(syncing));
  return true;
}

Result<Fd> FreshDeliveries::open(const Delivery& delivery, std::map<std::string, Fd>& inboxes) const {
  auto inbox = inboxes.find(delivery.recipient);
  if (inbox == inboxes.end()) {
    Fd opened = WARREN_TRY(root_.open_inbox(delivery.recipient));
    inbox = inboxes.emplace(delivery.recipient, std::move(opened)).first;
  }
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Fd file(::openat(inbox->second.get(), delivery.inbox_name.c_str(), flags));
  if (!file.is_open()) return system_error(errno, fmt::format("sync {}", quote(delivery.inbox_name)));
  return file;
}

// Adds `.done`, where the receiver may have moved the file. Best effort: receivers need not have the directory.
void FreshDeliveries::add_done(const std::string& recipient, std::map<std::string, Fd>& inboxes) const {
  std::string key = recipient + "/.done";
  auto inbox = inboxes.find(recipient);
  if (inbox == inboxes.end() || inboxes.contains(key)) return;
  Result<Fd> done = open_below(inbox->second.get(), ".done", O_RDONLY | O_DIRECTORY);
  if (done.ok()) inboxes.emplace(std::move(key), std::move(done).take_value());
}

bool FreshDeliveries::begin(Wait wait, std::vector<FreshOutcome>& outcomes) {
  Syncing syncing;
  std::vector<Fd> files;
  std::map<std::string, Fd> inboxes;
  bool is_short = false;  // of descriptors
  while (files.size() + syncing.left.size() < kFilesAtOnce && is_due(wait)) {
    std::string key = std::move(resting_.front().key);
    resting_.pop_front();
    auto found = all_.find(key);
    Delivery& delivery = found->second.delivery;
    Result<Fd> file = open(delivery, inboxes);
    if (file.ok()) {
      delivery.inbox_born_ns = birth_of_inbox_ns(inboxes.find(delivery.recipient)->second.get());
      files.push_back(std::move(file).take_value());
      syncing.keys.push_back(std::move(key));
      continue;
    }
    if (file.error().code() == Code::kLimit) {
      is_short = true;
      resting_.push_front({clock_.monotonic_ns() + (files.empty() ? kShortageNs : 0), std::move(key)});
      break;
    }
    bool is_inbox_gone = file.error().code() == Code::kNotFound && !inboxes.contains(delivery.recipient);
    bool is_unread = is_inbox_gone || is_disk_trouble(file.error());
    if (!is_unread && found->second.backed == Backed::kNo) {
      syncing.left.push_back(std::move(key));
      add_done(delivery.recipient, inboxes);
      continue;
    }
    if (is_unread) {
      outcomes.push_back({std::move(delivery), Fate::kFailed, file.error()});
    } else {
      add_read(delivery);
      outcomes.push_back({std::move(delivery), Fate::kRead});
    }
    all_.erase(found);
  }
  if (files.empty() && syncing.left.empty()) return !is_short;
  for (auto& [agent, inbox] : inboxes) files.push_back(std::move(inbox));
  syncing.batch = syncs_.begin(std::move(files));
  syncing_.push_back(std::move(syncing));
  return true;
}

void FreshDeliveries::end_oldest(std::vector<FreshOutcome>& outcomes) {
  Syncing oldest = std::move(syncing_.front());
  syncing_.pop_front();
  Status synced = syncs_.wait(*oldest.batch);
  for (const std::string& key : oldest.keys) {
    auto found = all_.extract(key);
    Fate fate = synced.ok() ? Fate::kDelivered : Fate::kFailed;
    if (found) outcomes.push_back({std::move(found.mapped().delivery), fate, synced});
  }
  for (const std::string& key : oldest.left) {
    auto found = all_.extract(key);
    if (found)
      outcomes.push_back({std::move(found.mapped().delivery), synced.ok() ? Fate::kRead : Fate::kFailed, synced});
  }
  for (auto& [recipient, stamps] : oldest.read) {
    for (std::int64_t stamp : stamps) {
      if (synced.ok()) outcomes.push_back({.delivery = {}, .fate = Fate::kGone, .stamp = stamp});
      else note_read(recipient, stamp);
    }
  }
}

}  // namespace warren::relay
