// Finds message files in outboxes, and notices files that leave inboxes.
//
// A file renamed into an outbox is complete and is offered at once. One written in place is offered after the settle
// time, counted from first sight on the monotonic clock, once its size no longer changes. As a safety net, directories
// are scanned when a watch is added, when the kernel dropped events, and every `rescan`.
//
// Memory is bounded: of a large outbox one page of the oldest names is kept at a time, and events above a limit are
// dropped and replaced by a scan.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "relay/root/config.h"
#include "relay/root/log.h"
#include "relay/root/root.h"

namespace warren::relay {

// A file as it was when it was looked at.
struct Sighting {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const Sighting&) const = default;
};

struct Candidate {
  std::string agent;
  std::string file;
  bool is_complete = false;  // was renamed here; otherwise it may still be growing
  std::int64_t first_seen_ns = 0;
  Sighting seen;  // unless it is complete: a settle time ago. If it has changed since, it is still being written
};

struct LeftInbox {
  std::string agent;
  std::string file;
};

// One thread.
class Watcher {
 public:
  static Result<std::unique_ptr<Watcher>> open(Root& root, const Config& config, Clock& clock, Log& log);

  int fd() const { return inotify_.get(); }  // readable when something happened

  // Creates and repairs the agent's directories, watches them, and scans the outbox. May be repeated.
  Status add_agent(const std::string& name);
  void remove_agent(const std::string& name);

  Status watch_lock();  // call again when .lock was replaced

  void take_events();
  // Whether all agents' directories must be scanned again; the owner then adds every agent again.
  bool rescan_is_due();
  void note_rescan();
  void rescan_soon_after(const Error& why);  // if descriptors ran out; other errors wait for the next rescan

  // Returns up to `limit` files, from all agents in turn, in order for each agent. Agents over their rate wait.
  std::vector<Candidate> next(std::size_t limit);
  enum class Delay { kSettle, kGrowing };  // kGrowing: as long again as the file has been there
  void look_again(const Candidate& candidate, Delay delay = Delay::kSettle);  // a file that is not complete yet
  void put_back(const std::vector<Candidate>& all);                           // they could not be processed now

  // Puts the files back, and offers none of their agents' files until resume(), so that order is kept.
  void pause(const std::vector<Candidate>& all);
  void resume(const std::string& agent);

  std::vector<LeftInbox> take_left();
  std::set<std::string> take_inboxes_to_check();  // events of these may have been lost
  bool take_agents_changed();
  bool take_config_changed() { return std::exchange(config_changed_, false); }
  bool take_poke() { return std::exchange(poked_, false); }

  // Removes drafts of senders that died: those seen unchanged for 30 s.
  void clean_pending(const std::string& agent);

  std::optional<std::int64_t> wake_at_ns() const;  // when next() may have something without an event
  std::uint64_t overflows() const { return overflows_; }
  bool has_backlog() const;           // an outbox has files that are ready, or was not scanned yet
  std::size_t count_waiting() const;  // files noticed and not offered yet
  bool has_work() const { return !busy_.empty(); }

 private:
  struct Item {
    std::string file;
    bool is_complete;
    std::int64_t first_seen_ns;
    Sighting seen;
  };
  struct Settling {
    std::int64_t first_seen_ns;
    std::int64_t look_at_ns;
    Sighting seen;
  };
  struct Box {
    std::deque<Item> page;  // from a scan of the outbox; goes before `ready`
    std::int64_t page_at_ns = 0;
    std::deque<Item> ready;
    std::map<std::string, Settling> settling;
    bool needs_scan = false;
    bool is_paused = false;
    double tokens = 0;
    std::int64_t filled_ns = 0;
  };
  enum class What { kRoot, kAgents, kLock, kOutbox, kInbox };
  struct Watch {
    What what;
    std::string agent;
  };
  struct Leftover {
    std::int64_t first_seen_ns;
    std::int64_t mtime_ns;
  };

  Watcher(Root& root, const Config& config, Clock& clock, Log& log, Fd inotify)
      : root_(root), config_(config), clock_(clock), log_(log), inotify_(std::move(inotify)) {}
  Status watch(int dir, std::uint32_t events, Watch what);
  bool is_complete_config(std::uint32_t mask) const;
  void on_event(int id, std::uint32_t mask, std::string_view name);
  void on_outbox(const std::string& agent, std::uint32_t mask, std::string_view name);
  void on_overflow();
  void scan(const std::string& agent, Box& box);
  void settle(const std::string& agent, Box& box);
  static bool is_growing(const Settling& one, const Sighting& now_seen, std::int64_t now);
  void refill(Box& box) const;
  std::size_t take_from(const std::string& agent, Box& box, std::size_t limit, std::vector<Candidate>& out);
  bool is_idle(const Box& box) const;
  std::int64_t settle_ns() const { return std::chrono::nanoseconds(config_.settle).count(); }

  Root& root_;
  const Config& config_;
  Clock& clock_;
  Log& log_;
  Fd inotify_;
  std::map<int, Watch> watches_;
  std::map<std::string, Box> boxes_;
  std::set<std::string> busy_;  // boxes with something in them
  std::string last_served_;
  std::vector<LeftInbox> left_;
  std::set<std::string> inboxes_to_check_;
  std::map<std::string, Leftover> leftovers_;  // by agent/name
  std::set<std::string> ill_named_;            // logged already
  std::int64_t rescan_at_ns_ = 0;
  std::uint64_t overflows_ = 0;
  bool agents_changed_ = false;
  std::int64_t agents_changed_at_ns_ = INT64_MAX;  // when agents_changed_ is to be set
  bool config_changed_ = false;
  bool poked_ = false;
};

}  // namespace warren::relay
