#include "agent/journal_log.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "agent/draft_name.h"
#include "base/below.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/tree_ops.h"
#include "store/journal.h"
#include "store/sqlite_fs.h"

namespace warren {
namespace {

constexpr std::int64_t kJournalPage = 1024;

// The rows that have something to say here, newest first. A reader has no journal of its own; a file of another program
// has none at all.
class JournalPages {
 public:
  static Result<std::unique_ptr<JournalPages>> open(Store& store) {
    std::unique_ptr<JournalPages> made(new JournalPages);
    if (!store.schema().has_extensions) return made;
    WARREN_TRY(store.database().end_batch());
    auto guard = store.database().lock();
    if (store.journal() == nullptr) {
      Result<std::unique_ptr<Journal>> opened = Journal::open(store.database(), store.clock());
      if (!opened.ok()) return made;  // of an older Warren, without all columns
      made->own_ = std::move(opened).take_value();
    }
    made->journal_ = made->own_ ? made->own_.get() : store.journal();
    made->next_ = WARREN_TRY(made->journal_->last_seq());
    return made;
  }

  // The next rows, oldest of them first; empty at the end.
  Result<std::vector<JournalRow>> read() {
    while (next_ > 0) {
      std::int64_t step = std::min(kJournalPage, next_);
      auto rows = WARREN_TRY(journal_->read_after(next_ - step, static_cast<std::size_t>(step)));
      for (; !rows && step > 1; rows = WARREN_TRY(journal_->read_after(next_ - step, static_cast<std::size_t>(step)))) {
        step /= 2;  // some of them were trimmed: up to the first row there is
      }
      if (!rows) break;
      std::erase_if(*rows, [&](const JournalRow& row) { return row.seq > next_; });
      next_ -= step;
      if (!rows->empty()) return *std::move(rows);
    }
    next_ = 0;
    return std::vector<JournalRow>();
  }

 private:
  JournalPages() = default;
  std::unique_ptr<Journal> own_;
  Journal* journal_ = nullptr;
  std::int64_t next_ = 0;  // rows up to this one have not been read
};

bool is_on_trail(const JournalRow& row) {
  return std::ranges::any_of(row.changes, [](const Change& one) { return one.kind == ChangeKind::kAudit; });
}

bool is_about_files(const Change& change) {
  return change.kind == ChangeKind::kEntry || change.kind == ChangeKind::kData ||
         change.kind == ChangeKind::kAttributes;
}

// The paths that nodes have now: one walk over the agent's own tree, until all have been found.
Result<std::map<std::uint64_t, std::string>> find_paths(FileSystem& fs, std::set<std::uint64_t> wanted) {
  std::map<std::uint64_t, std::string> paths;
  std::erase_if(wanted, [&](std::uint64_t inode) { return !fs.get_attributes(Inode{inode}).ok(); });  // gone
  if (wanted.empty()) return paths;
  WARREN_TRY(walk(fs, "/", [&](const WalkEntry& entry) -> Result<WalkNext> {
    std::uint64_t inode = entry.attributes.inode.value;
    if (wanted.erase(inode) > 0) paths.emplace(inode, entry.path);
    return wanted.empty() ? WalkNext::kStop : WalkNext::kContinue;
  }));
  return paths;
}

// By inode: the oldest row that mentions it, as its place among rows from the newest back.
using OldestMentions = std::map<std::uint64_t, std::size_t>;

struct Known {
  std::map<std::uint64_t, std::string> paths;  // of nodes, now
  OldestMentions mentions;
};

class JournalNarrator {
 public:
  JournalNarrator(Agent& agent, const LogFilter& filter, Known known)
      : agent_(agent), filter_(filter), paths_(std::move(known.paths)), mentions_(std::move(known.mentions)) {}

  // Rows come from the newest back: of several changes of a name, the newest left what is there now.
  Status add(const JournalRow& row, std::size_t place) {
    std::vector<LogEvent> found;
    Entries entries = WARREN_TRY(entries_of(row));
    std::optional<Renamed> renamed = find_rename(row, entries, place);
    if (renamed) add_rename(*renamed, found);
    for (const auto& [path, entry] : entries) {
      bool is_told = renamed && (path == renamed->from || path == renamed->to);
      if (!is_told) add_entry(path, entry, found);
    }
    add_nodes(row, entries, found);
    for (const Change& change : row.changes) WARREN_TRY(add_other(change, found));
    for (auto event = found.rbegin(); event != found.rend(); ++event) {
      event->at_us = row.at_us;
      events_.push_back(std::move(*event));
    }
    if (renamed) rewind(*renamed);
    return Ok{};
  }

  std::vector<LogEvent>& events() { return events_; }

 private:
  static std::string parent_of(std::string_view path) { return std::string(split_parent(path).parent); }

  bool is_wanted(std::string_view path) const { return !filter_.path || is_at_or_below(path, *filter_.path); }

  struct Entry {
    bool is_newest = true;
    std::optional<std::uint64_t> node;  // what is there now, if it is the newest change of the name
  };
  using Entries = std::map<std::string, Entry>;  // by path
  struct Renamed {
    std::string from;
    std::string to;
  };

  void add(std::vector<LogEvent>& found, std::string verb, std::string_view subject) const {
    if (!is_wanted(subject)) return;
    found.push_back({.at_us = 0,
                     .source = LogSource::kJournal,
                     .who = "",
                     .verb = std::move(verb),
                     .subject = std::string(subject),
                     .to = {},
                     .detail = ""});
  }

  // The names that a row is about, without drafts.
  Result<Entries> entries_of(const JournalRow& row) {
    Entries entries;
    for (const Change& change : row.changes) {
      auto dir = paths_.find(change.id);
      bool is_known = change.kind == ChangeKind::kEntry && dir != paths_.end();
      if (!is_known) continue;  // of a directory that is gone: that it was removed is another change
      std::string path = join_path(dir->second, change.name);
      if (is_draft_path(path) || entries.contains(path)) continue;
      Entry entry{.is_newest = seen_names_.insert(path).second};
      Result<Attributes> now = agent_.store().fs().lookup(Inode{change.id}, change.name);
      bool is_gone = !now.ok() && now.error().code() == Code::kNotFound;
      if (!now.ok() && !is_gone) return std::move(now).take_error();
      if (now.ok()) entry.node = now->inode.value;
      entries.emplace(std::move(path), entry);
    }
    return entries;
  }

  // One name went, and another is that of a node which is older than this row and otherwise unchanged.
  std::optional<Renamed> find_rename(const JournalRow& row, const Entries& entries, std::size_t place) const {
    Renamed renamed;
    std::size_t gone = 0;
    std::size_t moved = 0;
    for (const auto& [path, entry] : entries) {
      if (!entry.is_newest) return std::nullopt;
      if (!entry.node) {
        ++gone;
        renamed.from = path;
        continue;
      }
      auto oldest = mentions_.find(*entry.node);
      bool is_older = oldest != mentions_.end() && oldest->second > place;
      bool is_changed = std::ranges::any_of(row.changes, [&](const Change& change) {
        return change.id == *entry.node && (change.kind == ChangeKind::kData || change.kind == ChangeKind::kAttributes);
      });
      if (!is_older || is_changed) continue;
      ++moved;
      renamed.to = path;
    }
    bool is_rename = gone == 1 && moved == 1;
    return is_rename ? std::optional(std::move(renamed)) : std::nullopt;
  }

  void add_rename(const Renamed& renamed, std::vector<LogEvent>& found) const {
    if (!is_wanted(renamed.from) && !is_wanted(renamed.to)) return;
    found.push_back({.at_us = 0,
                     .source = LogSource::kJournal,
                     .who = "",
                     .verb = "renamed",
                     .subject = renamed.from,
                     .to = renamed.to,
                     .detail = ""});
  }

  // Older rows are about the former name, which was there until it was renamed.
  void rewind(const Renamed& renamed) {
    for (auto& [node, path] : paths_) {
      if (is_at_or_below(path, renamed.to)) path = renamed.from + path.substr(renamed.to.size());
    }
    left_there_.insert(renamed.from);
  }

  void add_entry(const std::string& path, const Entry& entry, std::vector<LogEvent>& found) {
    bool is_there = left_there_.erase(path) > 0;
    if (is_there || (entry.is_newest && entry.node)) return add(found, "added", path);
    add(found, entry.is_newest ? "removed" : "added or removed", path);
  }

  void add_nodes(const JournalRow& row, const Entries& entries, std::vector<LogEvent>& found) const {
    std::uint64_t nameless = 0;
    std::map<std::string, bool> nodes;  // path: content was written
    for (const Change& change : row.changes) {
      if (change.kind != ChangeKind::kData && change.kind != ChangeKind::kAttributes) continue;
      auto path = paths_.find(change.id);
      if (path == paths_.end()) ++nameless;
      else if (!is_draft_path(path->second)) nodes[path->second] |= change.kind == ChangeKind::kData;
    }
    for (const auto& [path, is_written] : nodes) {
      if (entries.contains(path)) continue;  // its content goes without saying
      // A directory's times change with its entries.
      bool is_parent = std::ranges::any_of(entries, [&](const auto& one) { return parent_of(one.first) == path; });
      if (!is_parent) add(found, is_written ? "wrote" : "changed mode, owner or times of", path);
    }
    if (nameless == 0 || !found.empty() || !entries.empty() || filter_.path) return;
    add(found, nameless == 1 ? "changed something that has no name now" : "changed files that have no names now", "");
  }

  Status add_other(const Change& change, std::vector<LogEvent>& found) {
    if (filter_.path) return Ok{};
    if (change.kind == ChangeKind::kEverything) add(found, "changed more than is listed", "");
    if (change.kind != ChangeKind::kKey) return Ok{};
    bool is_newest = seen_keys_.insert(change.name).second;
    std::string_view verb = "changed the key";
    if (is_newest) {
      bool is_there = WARREN_TRY(agent_.store().kv().find(change.name))
      .has_value();
      verb = is_there ? "set the key" : "removed the key";
    }
    add(found, std::string(verb), change.name);
    return Ok{};
  }

  Agent& agent_;
  const LogFilter& filter_;
  std::map<std::uint64_t, std::string> paths_;  // as of the row that is shown
  const OldestMentions mentions_;
  std::set<std::string> seen_names_;
  std::set<std::string> left_there_;  // names that the next older change of them must have left there
  std::set<std::string> seen_keys_;
  std::vector<LogEvent> events_;
};

// Newest first; at most so many as can be among the newest events.
Result<std::vector<JournalRow>> read_rows_back(Store& store, const LogFilter& filter) {
  auto pages = WARREN_TRY(JournalPages::open(store));
  std::vector<JournalRow> all;
  for (;;) {
    std::vector<JournalRow> page = WARREN_TRY(pages->read());
    bool is_over = page.empty() || (filter.since_us && page.back().at_us < *filter.since_us);
    if (is_over) break;
    std::ranges::reverse(page);
    std::erase_if(page, [](const JournalRow& row) { return is_on_trail(row) || row.changes.empty(); });
    std::ranges::move(page, std::back_inserter(all));
    bool is_enough = filter.limit && !filter.path && all.size() >= *filter.limit;
    if (is_enough) break;
  }
  return all;
}

}  // namespace

Status add_journal(Agent& agent, const LogFilter& filter, std::vector<LogEvent>& events) {
  std::vector<JournalRow> rows = WARREN_TRY(read_rows_back(agent.store(), filter));
  Known known;
  std::set<std::uint64_t> nodes;
  for (std::size_t place = 0; place < rows.size(); ++place) {
    for (const Change& change : rows[place].changes) {
      if (!is_about_files(change)) continue;
      nodes.insert(change.id);
      known.mentions[change.id] = place;
    }
  }
  known.paths = WARREN_TRY(find_paths(agent.store().fs(), std::move(nodes)));
  JournalNarrator narrator(agent, filter, std::move(known));
  for (std::size_t place = 0; place < rows.size(); ++place) WARREN_TRY(narrator.add(rows[place], place));
  std::ranges::reverse(narrator.events());
  std::ranges::move(narrator.events(), std::back_inserter(events));
  return Ok{};
}

}  // namespace warren
