#include "agent/record/journal_log.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "agent/copies/draft_name.h"
#include "base/below.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/tree_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/record/journal.h"

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
      Result<std::unique_ptr<Journal>> opened = Journal::open(store.database(), store.schema(), store.clock());
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
      : agent_(agent), filter_(filter), paths_(std::move(known.paths)), mentions_(std::move(known.mentions)) {
    if (filter.path) wanted_.insert(*filter.path);
  }

  // Rows come from the newest back: of several changes of a name, the newest left what is there now.
  Status add(const JournalRow& row, std::size_t place) {
    std::vector<LogEvent> found;
    name_removed(row);
    Entries entries = WARREN_TRY(entries_of(row));
    std::optional<Renamed> renamed = find_rename(row, entries, place);
    if (renamed) add_rename(*renamed, found);
    for (const auto& [path, entry] : entries) {
      bool is_told = renamed && (path == renamed->from || path == renamed->to);
      if (!is_told) add_entry(path, entry, found);
    }
    add_nodes(row, entries, found);
    for (const Change& change : row.changes) WARREN_TRY(add_other(change, found));
    if (is_on_trail(row)) found.clear();
    for (auto event = found.rbegin(); event != found.rend(); ++event) {
      event->at_us = row.at_us;
      if (!row.author.door.empty()) event->who = who_text(row.author.space, row.author.door);
      events_.push_back(std::move(*event));
    }
    remember_before(entries);
    if (renamed) rewind(*renamed);
    for (std::uint64_t node : removed_nodes_) removed_at_.insert_or_assign(paths_.at(node), node);
    return Ok{};
  }

  std::vector<LogEvent>& events() { return events_; }

 private:
  static std::string parent_of(std::string_view path) { return std::string(split_parent(path).parent); }

  bool is_wanted(std::string_view path) const {
    return !filter_.path || std::ranges::any_of(wanted_, [&](const auto& one) { return is_at_or_below(path, one); });
  }

  using Name = std::pair<std::uint64_t, std::string>;  // a directory's inode and a name in it
  struct Entry {
    Name name;
    std::optional<bool> is_there;       // after the row; nullopt: unknown
    std::optional<std::uint64_t> node;  // what is there now, if it is the newest change of the name
    std::size_t times = 0;              // how often the row has the name
    bool is_removal = false;            // of a node that is gone; another may have got its name at once
    bool is_replaced() const { return is_removal && is_there.value_or(false); }
  };
  using Entries = std::map<std::string, Entry>;  // by path
  struct Renamed {
    std::string from;
    std::string to;
  };

  void add(std::vector<LogEvent>& found, std::string_view verb, std::string_view subject,
           std::string_view detail = "") const {
    if (!is_wanted(subject)) return;
    found.push_back({.at_us = 0,
                     .source = LogSource::kJournal,
                     .who = "",
                     .verb = std::string(verb),
                     .subject = std::string(subject),
                     .to = {},
                     .detail = std::string(detail)});
  }

  // Whoever removes the last name of a node notes that name, then the node: so it is known what the node was called.
  // From the end: a directory is removed after what is in it.
  void name_removed(const JournalRow& row) {
    removed_names_.clear();
    removed_nodes_.clear();
    for (std::size_t i = row.changes.size(); i-- > 1;) {
      const Change& node = row.changes[i];
      const Change& entry = row.changes[i - 1];
      bool is_pair = node.kind == ChangeKind::kAttributes && entry.kind == ChangeKind::kEntry;
      if (!is_pair || paths_.contains(node.id)) continue;
      auto dir = paths_.find(entry.id);
      if (dir == paths_.end()) continue;
      std::string path = join_path(dir->second, entry.name);
      removed_names_.insert(path);
      removed_nodes_.insert(node.id);
      all_removed_.insert(node.id);
      paths_.emplace(node.id, std::move(path));
    }
  }

  // The names that a row is about, without drafts.
  Result<Entries> entries_of(const JournalRow& row) {
    Entries entries;
    for (const Change& change : row.changes) {
      auto dir = paths_.find(change.id);
      bool is_known = change.kind == ChangeKind::kEntry && dir != paths_.end();
      if (!is_known) continue;  // of a directory that is gone: that it was removed is another change
      std::string path = join_path(dir->second, change.name);
      if (is_draft_path(path)) continue;
      auto known = entries.find(path);
      if (known == entries.end()) {
        Entry entry = WARREN_TRY(entry_at(path, change));
        known = entries.emplace(std::move(path), entry).first;
      }
      ++known->second.times;
    }
    return entries;
  }

  Result<Entry> entry_at(const std::string& path, const Change& change) {
    Entry entry{.name = {change.id, change.name},
                .is_there = std::nullopt,
                .node = std::nullopt,
                .times = 0,
                .is_removal = removed_names_.contains(path)};
    if (!seen_names_.insert(entry.name).second) {
      if (auto left = left_.find(entry.name); left != left_.end()) entry.is_there = left->second;
      return entry;
    }
    entry.is_there = false;
    if (all_removed_.contains(change.id)) return entry;  // nothing is left in a directory that is gone
    Result<Attributes> now = agent_.store().fs().lookup(Inode{change.id}, change.name);
    bool is_gone = !now.ok() && now.error().code() == Code::kNotFound;
    if (!now.ok() && !is_gone) return std::move(now).take_error();
    if (now.ok()) entry.node = now->inode.value;
    entry.is_there = now.ok();
    return entry;
  }

  // One name went, and another is that of a node which is older than this row and otherwise unchanged.
  std::optional<Renamed> find_rename(const JournalRow& row, const Entries& entries, std::size_t place) const {
    Renamed renamed;
    std::size_t gone = 0;
    std::size_t moved = 0;
    for (const auto& [path, entry] : entries) {
      if (!entry.is_there) return std::nullopt;
      if (!*entry.is_there) {
        ++gone;
        renamed.from = path;
        if (entry.is_removal) return std::nullopt;
      } else if (is_moved_node(row, path, entry, place)) {
        ++moved;
        renamed.to = path;
      }
    }
    bool is_rename = gone == 1 && moved == 1;
    return is_rename ? std::optional(std::move(renamed)) : std::nullopt;
  }

  // Whether the node at the path is older than the row, and otherwise unchanged.
  bool is_moved_node(const JournalRow& row, const std::string& path, const Entry& entry, std::size_t place) const {
    std::optional<std::uint64_t> node = entry.node;
    if (auto removed = removed_at_.find(path); !node && removed != removed_at_.end()) node = removed->second;
    auto oldest = node ? mentions_.find(*node) : mentions_.end();
    bool is_older = oldest != mentions_.end() && oldest->second > place;
    return is_older && std::ranges::none_of(row.changes, [&](const Change& change) {
             return change.id == *node && (change.kind == ChangeKind::kData || change.kind == ChangeKind::kAttributes);
           });
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

  // Older rows are about the former name. Who asks for a file by its name wants to see its life under the former one,
  // too.
  void rewind(const Renamed& renamed) {
    for (auto& [node, path] : paths_) {
      bool is_moved = is_at_or_below(path, renamed.to) && !removed_nodes_.contains(node);
      if (!is_moved) continue;
      std::string former = renamed.from + path.substr(renamed.to.size());
      auto removed = removed_at_.find(path);
      if (removed != removed_at_.end() && removed->second == node) {
        removed_at_.erase(removed);
        removed_at_.insert_or_assign(former, node);
      }
      path = std::move(former);
    }
    std::vector<std::string> former;
    for (const std::string& path : wanted_) {
      if (is_at_or_below(path, renamed.to)) former.push_back(renamed.from + path.substr(renamed.to.size()));
    }
    wanted_.insert(former.begin(), former.end());
  }

  // What the next older change of each name has left there. A new name was free before, unless the row may be an
  // exchange of two.
  void remember_before(const Entries& entries) {
    auto there = std::ranges::count_if(entries, [](const auto& one) { return one.second.is_there.value_or(false); });
    for (const auto& [path, entry] : entries) {
      left_.erase(entry.name);
      bool was_there = entry.is_removal || (entry.is_there == false && entry.times == 1);
      bool was_free = entry.is_there == true && entry.times == 1 && there == 1;
      if (was_there || was_free) left_.emplace(entry.name, was_there);
    }
  }

  void add_entry(const std::string& path, const Entry& entry, std::vector<LogEvent>& found) const {
    std::string_view verb = "added or removed";
    if (entry.is_there) verb = entry.is_replaced() ? "replaced" : *entry.is_there ? "added" : "removed";
    add(found, verb, path);
  }

  void add_nodes(const JournalRow& row, const Entries& entries, std::vector<LogEvent>& found) const {
    std::uint64_t nameless = 0;
    struct Touched {
      bool is_written = false;
      bool is_gone = false;
    };
    std::map<std::string, Touched> nodes;  // by path
    for (const Change& change : row.changes) {
      if (change.kind != ChangeKind::kData && change.kind != ChangeKind::kAttributes) continue;
      auto path = paths_.find(change.id);
      if (path == paths_.end()) ++nameless;
      if (path == paths_.end() || is_draft_path(path->second)) continue;
      Touched& touched = nodes[path->second];
      touched.is_written |= change.kind == ChangeKind::kData;
      touched.is_gone = all_removed_.contains(change.id);
    }
    for (const auto& [path, touched] : nodes) {
      if (entries.contains(path)) continue;  // its content goes without saying
      // A directory's times change with its entries.
      bool is_parent = std::ranges::any_of(entries, [&](const auto& one) { return parent_of(one.first) == path; });
      if (is_parent) continue;
      std::string_view verb = touched.is_written ? "wrote" : "changed mode, owner or times of";
      add(found, verb, path, touched.is_gone ? "removed since" : "");
    }
    if (nameless == 0 || !found.empty() || !entries.empty() || filter_.path) return;
    add(found, nameless == 1 ? "changed something that has no name now" : "changed files that have no names now", "");
  }

  Status add_other(const Change& change, std::vector<LogEvent>& found) {
    if (filter_.path) return Ok{};
    if (change.kind == ChangeKind::kEverything) add(found, "changed more than is listed", "");
    if (change.kind != ChangeKind::kKey) return Ok{};
    // What was removed had been set. Before a key was set it may have been there or not.
    auto [newer, is_newest] = seen_keys_.try_emplace(change.name, KeyChange::kUnknown);
    bool has_expired = false;
    if (is_newest) {
      KeyValue& keys = agent_.store().kv();
      std::optional<std::string> value = WARREN_TRY(keys.find(change.name));
      bool is_there = value.has_value();
      if (!is_there) has_expired = WARREN_TRY(keys.has_expired(change.name));
      newer->second = is_there || has_expired ? KeyChange::kSet : KeyChange::kRemoved;
    } else {
      newer->second = newer->second == KeyChange::kRemoved ? KeyChange::kSet : KeyChange::kUnknown;
    }
    constexpr std::array<std::string_view, 3> kVerbs{"set the key", "removed the key", "changed the key"};
    std::string_view verb = kVerbs.at(static_cast<std::size_t>(newer->second));
    add(found, verb, change.name, has_expired ? "expired since" : "");
    return Ok{};
  }

  Agent& agent_;
  const LogFilter& filter_;
  std::map<std::uint64_t, std::string> paths_;  // as of the row that is shown
  const OldestMentions mentions_;
  std::set<Name> seen_names_;
  std::map<Name, bool> left_;              // whether the next older change of the name has left something there
  std::set<std::string> removed_names_;    // of nodes that the row has removed
  std::set<std::uint64_t> removed_nodes_;  // these nodes
  std::set<std::uint64_t> all_removed_;    // those of all newer rows, too
  std::map<std::string, std::uint64_t> removed_at_;  // nodes that newer rows have removed, by path
  std::set<std::string> wanted_;                     // the filter's path, and its former names
  enum class KeyChange { kSet, kRemoved, kUnknown };
  std::map<std::string, KeyChange> seen_keys_;  // the last one that was read, which is newer than those to come
  std::vector<LogEvent> events_;
};

// Newest first; at most so many as can be among the newest events.
Result<std::vector<JournalRow>> read_rows_back(Store& store, const LogFilter& filter) {
  auto pages = WARREN_TRY(JournalPages::open(store));
  std::vector<JournalRow> all;
  std::size_t shown = 0;
  for (;;) {
    std::vector<JournalRow> page = WARREN_TRY(pages->read());
    bool is_over = page.empty() || (filter.since_us && page.back().at_us < *filter.since_us);
    if (is_over) break;
    std::ranges::reverse(page);
    std::erase_if(page, [](const JournalRow& row) { return row.changes.empty(); });
    shown += static_cast<std::size_t>(std::ranges::count_if(page, [](const auto& row) { return !is_on_trail(row); }));
    std::ranges::move(page, std::back_inserter(all));
    bool is_enough = filter.limit && !filter.path && shown >= *filter.limit;
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
