#include "agent/journal_log.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

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

class JournalNarrator {
 public:
  JournalNarrator(Agent& agent, const LogFilter& filter, const std::map<std::uint64_t, std::string>& paths)
      : agent_(agent), filter_(filter), paths_(paths) {}

  // Rows come from the newest back: of several changes of a name, the newest left what is there now.
  Status add(const JournalRow& row) {
    std::vector<LogEvent> found;
    std::set<std::string> entered;  // names that this row is about; their content goes without saying
    for (const Change& change : row.changes) {
      if (change.kind == ChangeKind::kEntry) WARREN_TRY(add_entry(change, entered, found));
    }
    std::uint64_t nameless = 0;
    std::map<std::string, bool> nodes;  // path: content was written
    for (const Change& change : row.changes) {
      if (change.kind != ChangeKind::kData && change.kind != ChangeKind::kAttributes) continue;
      auto path = paths_.find(change.id);
      if (path == paths_.end()) ++nameless;
      else nodes[path->second] |= change.kind == ChangeKind::kData;
    }
    for (const auto& [path, is_written] : nodes) {
      if (entered.contains(path)) continue;
      // A directory's times change with its entries.
      bool is_parent = std::ranges::any_of(entered, [&](const std::string& name) { return parent_of(name) == path; });
      if (!is_parent) add(found, is_written ? "wrote" : "changed mode, owner or times of", path);
    }
    for (const Change& change : row.changes) WARREN_TRY(add_other(change, found));
    if (nameless > 0 && found.empty() && !filter_.path) {
      add(found,
          fmt::format("changed {}", nameless == 1 ? "something that has no name now" : "files that have no names now"),
          "");
    }
    for (auto event = found.rbegin(); event != found.rend(); ++event) {
      event->at_us = row.at_us;
      events_.push_back(std::move(*event));
    }
    return Ok{};
  }

  std::vector<LogEvent>& events() { return events_; }

 private:
  static std::string parent_of(std::string_view path) { return std::string(split_parent(path).parent); }

  bool is_wanted(std::string_view path) const { return !filter_.path || is_at_or_below(path, *filter_.path); }

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

  Status add_entry(const Change& change, std::set<std::string>& entered, std::vector<LogEvent>& found) {
    auto dir = paths_.find(change.id);
    if (dir == paths_.end()) return Ok{};  // the directory is gone; that it was removed is another change
    std::string path = join_path(dir->second, change.name);
    if (!entered.insert(path).second) return Ok{};
    bool is_newest = seen_names_.insert(path).second;
    if (!is_newest) {
      add(found, "added or removed", path);
      return Ok{};
    }
    Result<Attributes> now = agent_.store().fs().lookup(Inode{change.id}, change.name);
    bool is_gone = !now.ok() && now.error().code() == Code::kNotFound;
    if (!now.ok() && !is_gone) return std::move(now).take_error();
    add(found, is_gone ? "removed" : "added", path);
    return Ok{};
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
  const std::map<std::uint64_t, std::string>& paths_;
  std::set<std::string> seen_names_;
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
  std::set<std::uint64_t> nodes;
  for (const JournalRow& row : rows) {
    for (const Change& change : row.changes) {
      if (is_about_files(change)) nodes.insert(change.id);
    }
  }
  std::map<std::uint64_t, std::string> paths = WARREN_TRY(find_paths(agent.store().fs(), std::move(nodes)));
  JournalNarrator narrator(agent, filter, paths);
  for (const JournalRow& row : rows) WARREN_TRY(narrator.add(row));
  std::ranges::reverse(narrator.events());
  std::ranges::move(narrator.events(), std::back_inserter(events));
  return Ok{};
}

}  // namespace warren
