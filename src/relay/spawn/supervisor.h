// The agents that this relay started: who started whom, which of them are running, and which are to end.
//
// Keeps the ledger's lives in memory, together with their processes. A decision is first recorded by a round of the
// relay and only then carried out here: apply() and open_gates() are called after the commit. docs/design/relay.md.
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

// An operation `release` for another home, whose relay started the agent.
struct ReleaseElsewhere {
  std::string home;
  std::string payload;
};

// A round's decisions about agents. They take effect once recorded. Dropping them has no effect: a child whose gate was
// not opened ends.
struct Supervision {
  std::vector<Life> lives;           // new or changed
  std::vector<std::string> intents;  // payloads of operations `spawn`
  std::vector<ReleaseElsewhere> releases;
  std::vector<Child> started;  // still at their gates
  std::vector<SavedState> saves;
  std::size_t ends = 0;      // how many of Supervisor::ends() are reported
  std::size_t overdues = 0;  // how many of Supervisor::overdue() are handled

  bool is_empty() const { return lives.empty() && saves.empty() && ends == 0 && overdues == 0; }
};

// For one thread.
class Supervisor {
 public:
  // The configuration must outlive it.
  Supervisor(const SpawnConfig& config, Clock& clock) : config_(config), clock_(clock) {}

  // At the relay's start: adopts running processes; the others are added to ends().
  void load(std::vector<Life> lives);

  // Later: updates the state from the ledger.
  void reconcile(std::vector<Life> lives);

  const Life* find(std::string_view name) const;  // the newest life that had a process
  const Life* find_asked(std::string_view message_id) const;
  bool is_asked(std::string_view name) const;
  bool has_process(std::string_view name) const;
  // We started it, and it has no process now.
  bool has_ended(std::string_view name) const;
  bool was_released(std::string_view name) const;

  // Ancestry.
  std::string find_spawner(std::string_view name) const;  // empty: unknown
  std::int64_t depth_of(std::string_view name) const;     // 0: not started by us
  bool is_ancestor(std::string_view ancestor, std::string_view name) const;
  std::vector<std::string> list_descendants(std::string_view name) const;  // with processes

  // Whether `spawner` may start another agent, in addition to those planned in this round. kLimit.
  Status check_limits(std::string_view spawner, const std::vector<Life>& planned) const;

  // After the commit.
  void apply(const std::vector<Life>& lives);
  void open_gates(std::vector<Child> children);
  void note_saved(std::string_view name);  // a released agent needs no more notice then

  // Collects ended processes and sends signals that are due.
  void poll();
  const std::vector<Ended>& ends() const { return ends_; }
  const std::vector<Overdue>& overdue() const { return overdue_; }  // to be released by the relay
  void note_overdue(std::string_view name, std::string_view why);
  // `has_superior`: one of its ancestors is alive. To be called periodically.
  void note_superior(std::string_view name, bool has_superior);
  void forget_reported(std::size_t ends, std::size_t overdues);
  std::vector<std::string> list_running() const;

  void add_pollfds(std::vector<pollfd>& out) const;
  std::int64_t wake_at_ns() const;  // INT64_MAX: only when a process ends

 private:
  enum class Stage { kNone, kNotice, kTerminated, kKilled };
  struct Supervised {
    Life life;
    std::optional<Child> child;
    Stage stage = Stage::kNone;
    std::int64_t next_at_ns = INT64_MAX;     // end of the stage
    std::int64_t timeout_at_ns = INT64_MAX;  // end of its life
    std::int64_t orphan_at_ns = INT64_MAX;   // end of its time without ancestors
  };
  void keep(Life life);
  void adopt(Supervised& one);
  void step(Supervised& one, std::int64_t now_ns);
  void release(Supervised& one);
  std::int64_t timeout_at_ns(const Life& life) const;

  const SpawnConfig& config_;
  Clock& clock_;
  std::map<std::string, Supervised, std::less<>> supervised_;
  std::set<std::string> watched_;                   // names with a child: there may be many without
  std::map<std::string, Life, std::less<>> asked_;  // by message id
  std::vector<Ended> ends_;
  std::vector<Overdue> overdue_;
  std::map<std::string, std::deque<std::int64_t>, std::less<>> recent_;  // spawner → monotonic times
};

}  // namespace warren::relay
