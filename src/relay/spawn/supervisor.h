// The agents that this relay started: who started whom, whose process lives, and which are to end.
//
// It keeps in memory what the ledger has on lives, and the processes themselves. Decisions are recorded by a round of
// the relay first, and only then carried out here: apply() and let_go() come after the commit. docs/design/relay.md.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/spawn/child.h"
#include "relay/spawn/spawn_config.h"

namespace warren::relay {

struct Ended {
  std::string name;
  ChildEnd end;
};

struct Overdue {
  std::string name;
  std::string why;
};

// Of an agent that the relay of another home started: an operation `release` for that one.
struct ReleaseElsewhere {
  std::string home;
  std::string payload;
};

// What a round decides about agents. Nothing of it is true before it is recorded; dropped, it leaves no trace: a child
// that was not let go ends.
struct Supervision {
  std::vector<Life> lives;           // new, or changed
  std::vector<std::string> intents;  // payloads of operations `spawn`
  std::vector<ReleaseElsewhere> releases;
  std::vector<Child> started;  // at their gates
  std::vector<SavedState> saves;
  std::size_t ends = 0;      // of Supervisor::ends(), reported
  std::size_t overdues = 0;  // of Supervisor::overdue(), dealt with

  bool is_empty() const { return lives.empty() && saves.empty() && ends == 0 && overdues == 0; }
};

// One thread.
class Supervisor {
 public:
  // The configuration must outlive it.
  Supervisor(const SpawnConfig& config, Clock& clock) : config_(config), clock_(clock) {}

  // At start: processes that live are adopted; those that do not are among ends().
  void load(std::vector<Life> lives);

  // The same later, by what the ledger says.
  void reconcile(std::vector<Life> lives);

  const Life* find(std::string_view name) const;  // its newest life that had a process
  const Life* find_asked(std::string_view message_id) const;
  bool is_asked(std::string_view name) const;
  bool has_process(std::string_view name) const;
  // Was started by us, and has no process now.
  bool has_ended(std::string_view name) const;
  bool was_released(std::string_view name) const;

  // Who started whom.
  std::string find_spawner(std::string_view name) const;  // "": nobody we know
  std::int64_t depth_of(std::string_view name) const;     // 0: not started by us
  bool is_ancestor(std::string_view ancestor, std::string_view name) const;
  std::vector<std::string> list_descendants(std::string_view name) const;  // that have processes

  // Whether this agent may have one more, `planned` being asked for in the same round. kLimit.
  Status check_limits(std::string_view spawner, const std::vector<Life>& planned) const;

  // After the commit.
  void apply(const std::vector<Life>& lives);
  void let_go(std::vector<Child> children);
  void note_saved(std::string_view name);  // what a released agent was given time for

  // Looks which processes have ended, and sends the signals that are due.
  void poll();
  const std::vector<Ended>& ends() const { return ends_; }
  const std::vector<Overdue>& overdue() const { return overdue_; }  // to be released by the relay itself
  void note_overdue(std::string_view name, std::string_view why);
  // `has_superior`: somebody of its ancestors is there. To be asked now and then.
  void note_superior(std::string_view name, bool has_superior);
  void forget_reported(std::size_t ends, std::size_t overdues);
  std::vector<std::string> list_running() const;

  void add_pollfds(std::vector<pollfd>& out) const;
  std::int64_t wake_at_ns() const;  // INT64_MAX: only when a process ends

 private:
  enum class Stage { kNone, kNotice, kTerminated, kKilled };
  struct Kept {
    Life life;
    std::optional<Child> child;
    Stage stage = Stage::kNone;
    std::int64_t next_at_ns = INT64_MAX;     // of the stage
    std::int64_t timeout_at_ns = INT64_MAX;  // of its life
    std::int64_t orphan_at_ns = INT64_MAX;   // without ancestors
  };
  void keep(Life life);
  void adopt(Kept& kept);
  void step(Kept& kept, std::int64_t now_ns);
  void release(Kept& kept);
  std::int64_t timeout_at_ns(const Life& life) const;

  const SpawnConfig& config_;
  Clock& clock_;
  std::map<std::string, Kept, std::less<>> kept_;
  std::set<std::string> watched_;                   // those of them with a child; the others may be many
  std::map<std::string, Life, std::less<>> asked_;  // by message
  std::vector<Ended> ends_;
  std::vector<Overdue> overdue_;
  std::map<std::string, std::deque<std::int64_t>, std::less<>> recent_;  // spawner → when (monotonic)
};

}  // namespace warren::relay
