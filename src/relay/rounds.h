// The relay at work: takes messages from outboxes, records them in the ledger, and delivers them to inboxes.
//
// It works in rounds. A round decides about new files and about earlier deliveries (plan), writes the files for inboxes
// to tmp/deliveries (stage), records everything in one transaction (commit), and renames the files into the inboxes
// (publish). After a crash the next start continues from the ledger. docs/design/relay.md has the argument.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "relay/attachments/attachment_courier.h"
#include "relay/attachments/attachments.h"
#include "relay/context.h"
#include "relay/delivery/archivist.h"
#include "relay/delivery/arrivals.h"
#include "relay/delivery/bodies.h"
#include "relay/delivery/delivery_news.h"
#include "relay/delivery/fresh_deliveries.h"
#include "relay/delivery/inbox_repair.h"
#include "relay/delivery/mailroom.h"
#include "relay/delivery/notices.h"
#include "relay/delivery/records.h"
#include "relay/delivery/registry.h"
#include "relay/delivery/retries.h"
#include "relay/delivery/router.h"
#include "relay/delivery/stamps.h"
#include "relay/delivery/waiting_recipients.h"
#include "relay/delivery/watcher.h"
#include "relay/ledger/ledger.h"
#include "relay/ledger/ledger_syncer.h"
#include "relay/operation_trials.h"
#include "relay/plan.h"
#include "relay/protocol/message.h"
#include "relay/root/config_file.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/shared/routed_deliveries.h"
#include "relay/spawn/continuity.h"
#include "relay/spawn/launcher.h"
#include "relay/spawn/lives.h"
#include "relay/spawn/supervisor.h"
#include "relay/upkeep/upkeep.h"

namespace warren::relay {

// One thread.
class Rounds {
 public:
  // Opens the ledger and recovers.
  // `config_file` is where the environment's config comes from.
  static Result<std::unique_ptr<Rounds>> open(const Environment& all, ConfigFile& config_file, LauncherOptions launch);

  // Serves until `stop` becomes readable, and finishes the messages it has accepted.
  Status run(int stop);

  void note_metrics_change() { upkeep_.note_change(); }

 private:
  struct Opened {
    std::unique_ptr<Ledger> ledger;
    std::unique_ptr<Attachments> attachments;
    std::unique_ptr<Watcher> watcher;
  };
  Rounds(const Environment& all, ConfigFile& config_file, LauncherOptions launch, Opened opened);
  Status recover();
  Status recover_read(bool is_after_power_cut);
  Result<std::int64_t> resume(bool is_after_power_cut);  // pending deliveries; returns how many
  Status publish_again(const std::vector<Delivery>& page, bool is_after_power_cut, std::set<std::string>& failing);
  Status record_again(const std::vector<Delivery>& page);
  Status remove_orphans();
  void rescan();
  void reread_config();
  void use_new_config();
  void on_poke();
  Result<bool> round();  // whether there was something to do
  void finish();
  void take_hashed();
  Status sleep(int stop);
  bool has_news() const {
    return !news_.is_empty() || registry_.has_changes() || !supervisor_.ends().empty() || bodies_.has_unneeded();
  }
  DeliveryNews::Load load_with(const Plan& plan) const;
  DeliveryNews::Share due_news(const Plan& plan) const;
  std::int64_t wake_at_ns() const;

  // Planning: relay_plan.cc for files in outboxes, relay_progress.cc for everything else.
  Status plan_new(Plan& plan);  // everything but changes of earlier deliveries
  Status plan_candidates(Plan& plan);
  Status begin_early(Plan& plan);
  Status plan_candidate(Plan& plan, const Candidate& candidate);
  void plan_message(Plan& plan, Outgoing outgoing);
  Result<bool> is_known(Plan& plan, const Outgoing& outgoing, const Candidate& candidate);
  Status plan_request(Plan& plan, Outgoing& outgoing);
  Status plan_ack(Plan& plan, const Outgoing& outgoing);
  Status plan_status(Plan& plan, const Outgoing& outgoing);
  Status plan_subscription(Plan& plan, const Outgoing& outgoing);
  Status plan_routes(Plan& plan, Outgoing& outgoing);
  void refuse(Plan& plan, Outgoing outgoing, const Error& why);
  void look_again(const Candidate& candidate, const Error& why);
  Status plan_unreadable(Plan& plan, Outgoing outgoing, const Candidate& candidate, const Error& why);
  void note_clock(const Candidate& candidate);
  void assign_names(Plan& plan);

  Status plan_changes(Plan& plan, DeliveryNews::Share part);
  Status plan_left(Plan& plan);
  void note_left(std::vector<LeftInbox> left);
  Status check_inbox(Plan& plan);
  void bury_unread(Delivery delivery);
  Status plan_waiting(Plan& plan);
  Status plan_retries(Plan& plan);
  Status plan_operations(Plan& plan);
  Status try_operation(Plan& plan, const Operation& operation);
  // These: kWaits for an attachment that is being hashed, and take_hashed() has it planned again.
  Result<Readiness> plan_operation(Plan& plan, const Operation& operation);
  Result<Readiness> plan_removal(Plan& plan, const std::string& name, const std::string& directory);
  Result<Readiness> bury_unread(Plan& plan, const std::string& name, const std::string& directory);
  Status bury_file(Plan& plan, const std::string& name, const std::string& file);
  void bury_for_removal(Plan& plan, const Delivery& delivery);
  Result<Readiness> plan_letter(Plan& plan, const Operation& operation, std::int64_t letter);
  Result<Readiness> redeliver(Plan& plan, const DeadLetter& letter);
  Result<Readiness> restage(Plan& plan, Delivery delivery);
  Result<Readiness> restage_or_bury(Plan& plan, const Delivery& delivery, const std::string& recipient);
  std::string agent_for(const std::string& recipient) const;
  void give_up(Plan& plan, const Operation& operation, const std::string& why);
  // Ledgers that several relays share: relay_shared.cc.
  void hear_news();
  Status refresh_ledger();
  Status recover_in_doubt();
  Status record_body(Outgoing& outgoing);
  void suspend(Plan plan, const Error& why);

  // Carrying out: relay_round.cc.
  Status stage(Plan& plan);
  Status stage_message(Outgoing& outgoing);
  Status commit(Plan& plan, SyncRequest& staged);
  Status record_message(Outgoing& outgoing);
  Status record_changes(Plan& plan, const std::vector<Change>& changes);
  Status record_change(const Change& change);
  Status record_inbox(const Change& change);
  Status update_statuses(const Plan& plan, const std::vector<Change>& changes);
  Status record_rest(const Plan& plan);
  Result<std::size_t> drop_bodies(const Plan& plan);
  void publish(Plan& plan);
  Status check_syncs();
  void collect_fresh(Wait wait);
  void publish_one(const Delivery& delivery);
  template <typename Changes>
  void keep_failing(const Changes& changes);
  void abandon(Plan plan, const Error& why);
  void withdraw(const Delivery& delivery);
  Status clear_doubt();
  void retry(Delivery delivery, std::string_view why);

  bool run_idle_work();  // false: nothing to do

  std::int64_t now_ms() { return clock_.now_us() / 1000; }
  std::string archive_path(std::string_view agent, std::string_view file);

  Root& root_;
  const Config& config_;
  ConfigFile& config_file_;
  Clock& clock_;
  Log& log_;
  Metrics& metrics_;
  Router router_;
  std::unique_ptr<Ledger> ledger_;
  Context all_;
  std::unique_ptr<Attachments> attachments_;
  std::unique_ptr<Watcher> watcher_;
  Mailroom mailroom_;
  Stamps stamps_;
  Arrivals arrivals_;
  Records records_;
  Notices notices_;
  InboxRepair repair_;
  Upkeep upkeep_;
  Supervisor supervisor_;
  WaitingRecipients waiting_;
  Registry registry_;
  Lives lives_;
  Continuity continuity_;
  std::uint64_t asked_ = 0;  // the last sync that was asked for
  FreshDeliveries fresh_;
  Bodies bodies_;
  DeliveryNews news_;
  std::mt19937_64 random_;
  Retries retries_;
  AttachmentCourier courier_;
  RoutedDeliveries routed_;
  bool operations_wanted_ = true;
  bool has_unfinished_removal_ = false;                      // of an agent: plan_removal()
  std::map<std::string, std::vector<std::string>> to_bury_;  // directory of a removed agent → files, the oldest last
  OperationTrials trials_;
  std::map<std::string, std::int64_t> touched_us_;      // agent → last_seen_at as it was last recorded
  std::map<std::string, std::int64_t> newest_sent_ns_;  // sender → by the names of its files
  bool is_ending_ = false;                              // nothing new is taken
  std::int64_t paused_until_ns_ = 0;
  std::int64_t dirs_until_ns_ = 0;     // monotonic: how long open inboxes stay open
  bool is_doubtful_ = false;           // the commit that failed just now may have happened
  std::vector<std::string> doubtful_;  // staged for such commits
  int failures_ = 0;                   // rounds in a row that could not be carried out
  bool has_recovered_ = false;         // ever, in this process
  bool must_recover_ = false;          // whether the last commit happened is not known
  Archivist archivist_;                // used by the thread of the next one
  LedgerSyncer syncer_;
};

}  // namespace warren::relay
