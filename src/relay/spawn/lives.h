// The lives of agents that the relay starts: requests about them (KIND spawn and release), and how their processes end.
//
// Requests only change the plan of a round. The round records it, and then carry_out() makes the processes follow.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "relay/context.h"
#include "relay/delivery/notices.h"
#include "relay/delivery/records.h"
#include "relay/delivery/registry.h"
#include "relay/plan.h"
#include "relay/protocol/spawn_request.h"
#include "relay/spawn/launcher.h"
#include "relay/spawn/supervisor.h"

namespace warren::relay {

// One thread.
class Lives {
 public:
  struct Uses {
    Records& records;
    Notices& notices;
    Registry& registry;
    Supervisor& supervisor;
  };
  Lives(const Context& all, LauncherOptions launch, const Uses& uses)
      : root_(all.root),
        config_(all.config),
        clock_(all.clock),
        log_(all.log),
        router_(all.router),
        ledger_(all.ledger),
        records_(uses.records),
        notices_(uses.notices),
        registry_(uses.registry),
        supervisor_(uses.supervisor),
        launcher_(all.root, all.config.spawn, std::move(launch)) {}

  Status recover(bool is_in_doubt);  // is_in_doubt: in a running relay, after a commit without an answer

  // Planning.
  Status check_token(const Outgoing& outgoing);
  Status plan_spawn(Plan& plan, const Outgoing& outgoing);
  Status plan_release(Plan& plan, const Outgoing& outgoing);
  void plan_ends(Plan& plan);

  // Operations: `spawn`, from plan_spawn(), and `release`, from another relay.
  bool is_asked_here(const Operation& operation) const;
  Status plan_start(Plan& plan, const Operation& operation);
  void give_up_start(Plan& plan, const Operation& operation, const Error& why);
  Status plan_release_for(Plan& plan, const Json& payload);

  Status record(const Plan& plan);
  void carry_out(Plan& plan);  // after the commit

  // A failed commit that changed lives may have happened. reconcile(): the ledger decides. Children of that round never
  // left their gates.
  void note_doubt() { is_doubtful_ = true; }
  bool is_doubtful() const { return is_doubtful_; }
  Status reconcile();

  bool is_sandboxed(std::string_view name) const;  // as the relay started it last

  void watch_superiors();  // now and then: an agent without any is released

 private:
  struct Releaser {
    std::string agent;
    std::string message_id;  // that asks for it
  };
  Status check_spawn(const Plan& plan, const SpawnRequest& request, const std::string& spawner) const;
  Status check_name_to_spawn(const Plan& plan, const std::string& name, const std::string& spawner) const;
  Result<Child> start_agent(Life& life);
  void note_start_failed(Plan& plan, Life life, const Error& why);
  Result<std::string> find_home_of_life(const std::string& name);
  Status release_here(Plan& plan, const ReleaseRequest& request, const Releaser& by);
  void release(Plan& plan, const Life& life, std::string_view releaser, std::string_view why);
  void plan_end(Plan& plan, const Ended& ended);
  std::optional<Life> find_life(const Plan& plan, std::string_view name) const;
  void report_life(Plan& plan, const std::string& agent, const Life& life, std::string_view state);
  bool may_command(const std::string& agent, const std::string& name) const;
  std::string find_superior(const std::string& name) const;
  Error denied(const Outgoing& outgoing, std::string why);
  Error denied(std::string_view message_id, std::string_view kind, std::string why);
  void write_meta(const Life& life);

  Root& root_;
  const Config& config_;
  Clock& clock_;
  Log& log_;
  Router& router_;
  Ledger& ledger_;
  Records& records_;
  Notices& notices_;
  Registry& registry_;
  Supervisor& supervisor_;
  Launcher launcher_;
  bool is_doubtful_ = false;
};

}  // namespace warren::relay
