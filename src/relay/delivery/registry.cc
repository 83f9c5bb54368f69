#include "relay/delivery/registry.h"

#include <set>
#include <utility>

#include "os/files/dir_reader.h"
#include "relay/protocol/names.h"

namespace warren::relay {

void Registry::add(const std::string& name, std::int64_t now_us) {
  Result<bool> is_ours = claim(name, now_us);
  if (is_ours.ok() && !*is_ours) return;
  Status added = is_ours.ok() ? watcher_.add_agent(name) : Status(is_ours.error());
  if (!added.ok()) {
    log_.note(Severity::kError, "agent_failed", {{"agent", name}, {"error", added.error().message()}});
    watcher_.rescan_soon_after(added.error());
    return;
  }
  const AgentRow* known = router_.find_agent(name);
  if (known != nullptr && (known->status != "terminated" || supervisor_.was_released(name))) return;
  AgentRow agent{name, now_us, 0, "active"};
  router_.put_agent(agent);
  changes_.push_back(std::move(agent));
  waiting_.add(name);
  log_.note(Severity::kInfo, "agent_registered", {{"agent", name}});
}

// An agent is registered by its directory, and terminated by removing it.
void Registry::add_all() {
  Result<std::vector<std::string>> names = root_.list_agents();
  if (!names.ok()) {
    log_.note(Severity::kError, "agents_unreadable", {{"error", names.error().message()}});
    watcher_.rescan_soon_after(names.error());
    return;
  }
  std::int64_t now_us = clock_.now_us();
  for (const std::string& name : *names) add(name, now_us);
  std::set<std::string> there(names->begin(), names->end());
  std::vector<AgentRow> gone;
  for (const auto& [name, agent] : router_.agents()) {
    if (!there.contains(name) && agent.status != "terminated" && !router_.is_remote(agent)) gone.push_back(agent);
  }
  for (AgentRow& agent : gone) {
    agent.status = "terminated";
    router_.put_agent(agent);
    watcher_.remove_agent(agent.name);
    supervisor_.note_overdue(agent.name, "its directory was removed");
    log_.note(Severity::kInfo, "agent_terminated", {{"agent", agent.name}});
    changes_.push_back(agent);
  }
  if (!router_.find_lead().empty()) waiting_.add(std::string(kLead));
}

// For our own agents, our state is newer than the ledger's.
Status Registry::reload() {
  std::int64_t version = WARREN_TRY(ledger_.homes()->agents_version());
  if (version != version_) {
    std::vector<AgentRow> agents = WARREN_TRY(ledger_.list_agents());
    auto subscriptions = WARREN_TRY(ledger_.list_subscriptions());
    for (const AgentRow& agent : agents) {
      const AgentRow* known = router_.find_agent(agent.name);
      bool was_ours = known != nullptr && !router_.is_remote(*known);
      bool is_ours = !router_.is_remote(agent);
      if (was_ours && is_ours) continue;
      if (was_ours) watcher_.remove_agent(agent.name);
      bool may_be_free = refused_names_.contains(agent.name) && (is_ours || agent.status == "terminated");
      names_wanted_ = names_wanted_ || is_ours || may_be_free;
      if (is_ours) waiting_.add(agent.name);
      router_.put_agent(agent);
    }
    router_.set_subscriptions(std::move(subscriptions));
    version_ = version;
  }
  is_stale_ = false;
  if (std::exchange(names_wanted_, false)) add_all();
  return Ok{};
}

Result<bool> Registry::claim_name(const AgentRow& agent) {
  auto transaction = WARREN_TRY(ledger_.begin());
  bool is_ours = WARREN_TRY(ledger_.homes()->claim(agent.name));
  if (is_ours) WARREN_TRY(ledger_.put_agent(agent));
  WARREN_TRY(transaction.commit());
  return is_ours;
}

// Whether an agent's directory here makes it ours: not if its home is another relay.
Result<bool> Registry::claim(const std::string& name, std::int64_t now_us) {
  Homes* homes = ledger_.homes();
  if (homes == nullptr) return true;
  const AgentRow* known = router_.find_agent(name);
  bool is_there = known != nullptr && known->status != "terminated";
  bool is_known_here = known != nullptr && !router_.is_remote(*known);
  if (is_known_here && (is_there || supervisor_.was_released(name))) return true;
  AgentRow agent{name, now_us, 0, "active", homes->id()};
  Result<bool> claimed = is_there ? Result<bool>(false) : claim_name(agent);
  if (!claimed.ok()) names_wanted_ = true;  // once the ledger is back
  if (!WARREN_TRY(std::move(claimed))) {
    if (refused_names_.insert(name).second) log_.audit("name_is_taken", {{"agent", name}});
    return false;
  }
  refused_names_.erase(name);
  router_.put_agent(agent);
  waiting_.add(name);
  log_.note(Severity::kInfo, "agent_registered", {{"agent", name}});
  return true;
}

void Registry::set_status(Plan& plan, const std::string& name, std::string_view status) {
  const AgentRow* known = router_.find_agent(name);
  if (known == nullptr || known->status == status) return;
  AgentRow agent = *known;
  agent.status = status;
  if (status == "active") waiting_.add(name);
  idle_.erase(name);
  router_.put_agent(agent);
  plan.agents.push_back(std::move(agent));
}

void Registry::note_active(const std::string& name) {
  if (config_.inactive.count() == 0) return;
  active_ns_[name] = clock_.monotonic_ns();
  const AgentRow* known = router_.find_agent(name);
  if (idle_.erase(name) == 0 || known == nullptr || known->status != "inactive") return;
  AgentRow agent = *known;
  agent.status = "active";
  waiting_.add(name);
  router_.put_agent(agent);
  changes_.push_back(std::move(agent));
}

bool Registry::has_mail(const std::string& agent) const {
  Result<Fd> inbox = root_.open_inbox(agent);
  if (!inbox.ok()) return false;
  Result<DirReader> reader = DirReader::open(inbox->get());
  if (!reader.ok()) return false;
  for (;;) {
    Result<const DirReader::Entry*> entry = reader->next();
    if (!entry.ok() || *entry == nullptr) return false;
    if (is_message_file((*entry)->name)) return true;
  }
}

// Idle is not dead: an agent counts as inactive only if it leaves its mail unread and sends nothing for that long.
void Registry::note_inactive() {
  if (config_.inactive.count() == 0) return;
  std::int64_t now = clock_.monotonic_ns();
  std::vector<AgentRow> idle;
  for (const auto& [name, agent] : router_.agents()) {
    if (agent.status != "active" || supervisor_.has_process(name) || router_.is_remote(agent)) continue;
    std::int64_t since = active_ns_.try_emplace(name, now).first->second;
    if (now - since >= std::chrono::nanoseconds(config_.inactive).count() && has_mail(name)) idle.push_back(agent);
  }
  for (AgentRow& agent : idle) {
    agent.status = "inactive";
    idle_.insert(agent.name);
    router_.put_agent(agent);
    log_.note(Severity::kWarning, "agent_inactive", {{"agent", agent.name}});
    changes_.push_back(std::move(agent));
  }
}

}  // namespace warren::relay
