// Which agents this relay serves, and whether they are active.
//
// An agent is registered by its directory. If several relays share a ledger, the first one claims the name; agents of
// the other relays are known here as well. Changes are in the Router at once, and recorded by the next round.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "relay/context.h"
#include "relay/delivery/waiting_recipients.h"
#include "relay/delivery/watcher.h"
#include "relay/plan.h"
#include "relay/spawn/supervisor.h"

namespace warren::relay {

// One thread.
class Registry {
 public:
  Registry(const Context& all, Watcher& watcher, Supervisor& supervisor, WaitingRecipients& waiting)
      : root_(all.root),
        config_(all.config),
        clock_(all.clock),
        log_(all.log),
        router_(all.router),
        ledger_(all.ledger),
        watcher_(watcher),
        supervisor_(supervisor),
        waiting_(waiting) {}

  void add(const std::string& name, std::int64_t now_us);
  void add_all();  // compares with the directories

  void set_status(Plan& plan, const std::string& name, std::string_view status);
  void note_active(const std::string& name);  // it sent or took something
  void note_inactive();                       // agents that leave their mail unread

  // Rows for the next round; put_back() if it was abandoned.
  bool has_changes() const { return !changes_.empty(); }
  std::vector<AgentRow> take_changes() { return std::exchange(changes_, {}); }
  void put_back(const std::vector<AgentRow>& rows) { changes_.insert(changes_.begin(), rows.begin(), rows.end()); }

  // For a shared ledger.
  void note_stale() { is_stale_ = true; }  // another relay has changed its agents
  bool is_stale() const { return is_stale_; }
  Status reload();

 private:
  Result<bool> claim(const std::string& name, std::int64_t now_us);
  Result<bool> claim_name(const AgentRow& agent);
  bool has_mail(const std::string& agent) const;

  Root& root_;
  const Config& config_;
  Clock& clock_;
  Log& log_;
  Router& router_;
  Ledger& ledger_;
  Watcher& watcher_;
  Supervisor& supervisor_;
  WaitingRecipients& waiting_;
  std::vector<AgentRow> changes_;
  std::map<std::string, std::int64_t> active_ns_;  // agent → when it last sent or took something (monotonic)
  std::set<std::string> idle_;                     // agents we made inactive ourselves
  bool is_stale_ = false;
  bool names_wanted_ = false;            // agents whose names could not be claimed yet
  std::int64_t version_ = 0;             // of the shared ledger's agents
  std::set<std::string> refused_names_;  // of agents at home elsewhere; logged already
};

}  // namespace warren::relay
