#include "mcp/subscriptions.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/below.h"
#include "fs/path_ops.h"
#include "store/record/journal.h"
#include "store/store.h"

namespace warren::mcp {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};
constexpr int kLookAnyway = 10;  // rounds
constexpr std::size_t kSubscriptionsMax = 10'000;
constexpr std::size_t kRowsRead = 1000;  // of the journal; after more of them names may have changed

bool is_same(const std::optional<Attributes>& a, const std::optional<Attributes>& b) {
  if (!a || !b) return !a && !b;
  return a->inode == b->inode && a->size == b->size && a->mtime == b->mtime && a->ctime == b->ctime;
}

}  // namespace

Subscriptions::~Subscriptions() { worker_.stop(); }

// What the caller may not see any more is gone for it.
Subscriptions::Look Subscriptions::look_at(const std::string& path) const {
  if (!service_.refresh_view().ok()) return {};
  Result<Attributes> found = lstat(service_.view(), path);
  if (!found.ok()) return {};
  Result<bool> may_look = service_.view().may(found->is_directory() ? Rights::kList : Rights::kRead, path);
  if (!may_look.ok() || !*may_look) return {};
  return found.ok() ? Look(*found) : Look();
}

bool Subscriptions::is_in_agent_file(const std::string& path) const {
  for (const MountInfo& mount : (*service_.names()).mounts()) {
    if (mount.path != "/" && mount.backend != "agent file" && is_at_or_below(path, mount.path)) return false;
  }
  return true;
}

Result<std::uint64_t> Subscriptions::add(const std::string& path, Notice notice) {
  Entry entry{
      .path = path, .is_in_agent_file = is_in_agent_file(path), .seen = look_at(path), .notice = std::move(notice)};
  return keep(std::move(entry));
}

Result<std::uint64_t> Subscriptions::add_list(Notice notice) {
  return keep({.path = {}, .is_in_agent_file = true, .seen = {}, .notice = std::move(notice), .is_list = true});
}

Result<std::uint64_t> Subscriptions::keep(Entry entry) {
  std::int64_t row = -1;  // from now on, not from when the thread gets to run
  have_names_changed(row);
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kSubscriptionsMax) {
    return Error(Code::kLimit, fmt::format("there are {} subscriptions already", kSubscriptionsMax));
  }
  if (!is_watching_) WARREN_TRY(worker_.submit([this, row] { watch(row); }));
  is_watching_ = true;
  entries_.emplace(++last_id_, std::move(entry));
  return last_id_;
}

void Subscriptions::remove(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  entries_.erase(id);
}

void Subscriptions::watch(std::int64_t seen_row) {
  std::int64_t seen_change = 0;
  std::uint64_t seen_names = 0;
  int rounds = 0;
  while (worker_.sleep_for(kLookEvery)) {
    Result<Agent::ChangeMark> mark = service_.agent().change_mark();
    // Without a mark everything may have changed; and other programs leave no row in the journal, by which the mark
    // is made.
    bool has_changed =
        !mark.ok() || mark->everything != seen_change || mark->names != seen_names || ++rounds % kLookAnyway == 0;
    bool has_own_tree_changed = mark.ok() && mark->names != seen_names;
    if (mark.ok()) {
      seen_change = mark->everything;
      seen_names = mark->names;
    }
    report_changes(has_changed);
    if (has_changed && has_lists() && (have_names_changed(seen_row) || has_own_tree_changed)) report_lists();
  }
}

bool Subscriptions::has_lists() {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_, [](const auto& one) { return one.second.is_list; });
}

bool Subscriptions::have_names_changed(std::int64_t& seq) const {
  Store& store = service_.agent().store();
  auto lock = store.database().lock();
  Journal* journal = store.journal();
  if (journal == nullptr) return false;
  Result<std::int64_t> last = journal->last_seq();
  if (!last.ok()) return true;
  std::int64_t from = std::exchange(seq, *last);
  if (from == *last || from < 0) return false;
  Result<std::optional<std::vector<JournalRow>>> rows = journal->read_after(from, kRowsRead);
  bool is_known = rows.ok() && *rows && (*rows)->size() < kRowsRead;
  if (!is_known) return true;
  auto is_about_names = [](const Change& change) {
    return change.kind == ChangeKind::kEntry || change.kind == ChangeKind::kEverything;
  };
  return std::ranges::any_of(**rows,
                             [&](const JournalRow& row) { return std::ranges::any_of(row.changes, is_about_names); });
}

void Subscriptions::report_lists() {
  std::vector<Notice> notices;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (entry.is_list) notices.push_back(entry.notice);
    }
  }
  for (const Notice& notice : notices) notice();
}

void Subscriptions::report_changes(bool has_file_changed) {
  std::vector<std::pair<std::uint64_t, std::string>> looked_at;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (entry.is_list) continue;
      if (has_file_changed || !entry.is_in_agent_file) looked_at.emplace_back(id, entry.path);
    }
  }
  for (const auto& [id, path] : looked_at) {
    Look now = look_at(path);
    Notice notice;
    {
      std::lock_guard lock(mutex_);
      auto found = entries_.find(id);
      if (found == entries_.end() || is_same(found->second.seen, now)) continue;
      found->second.seen = now;
      notice = found->second.notice;
    }
    notice();
  }
}

}  // namespace warren::mcp
