// The relay: takes messages from outboxes, records them in the ledger, and delivers them to inboxes.
//
// It works in rounds. A round decides about new files and about earlier deliveries (plan), writes the files for inboxes
// to tmp/deliveries (stage), records everything in one transaction (commit), and renames the files into the inboxes
// (publish). After a crash the next start continues from the ledger. docs/design/relay.md has the argument.
#pragma once

#include <cstdint>
#include <deque>
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
#include "relay/attachments/attachments.h"
#include "relay/delivery/arrivals.h"
#include "relay/delivery/fresh_deliveries.h"
#include "relay/delivery/mailroom.h"
#include "relay/delivery/router.h"
#include "relay/delivery/watcher.h"
#include "relay/ledger/ledger.h"
#include "relay/ledger/ledger_syncer.h"
#include "relay/protocol/attachment.h"
#include "relay/protocol/message.h"
#include "relay/root/config.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/spawn/launcher.h"
#include "relay/spawn/supervisor.h"
#include "relay/upkeep/disk_watch.h"
#include "relay/upkeep/housekeeper.h"

namespace warren::relay {

// How long news of an earlier delivery, such as "delivered", waits for a round that has something else to record.
inline constexpr std::int64_t kFlushNs = 20'000'000;
inline constexpr std::size_t kNewsAtOnce = 16;  // so many are worth a round of their own

// A message of this round, from an agent or from the relay itself, and who gets it.
struct Outgoing {
  MessageRow row;
  Message message;
  std::vector<Delivery> deliveries;
  std::int64_t discovered_ns = 0;  // monotonic; 0: before this start
  std::string unsynced;            // content that was staged without being synced, for the ledger
  bool is_arrival = false;         // recorded as one row, and entered later
};

// A delivery that has moved on.
struct Change {
  Delivery delivery;
  DeliveryState state = DeliveryState::kDelivered;
  std::string error;
  bool is_retry = false;         // stays pending; attempts and next_at are the delivery's
  bool is_read_at_once = false;  // was read before it was recorded as delivered
};

struct Restaged {
  Delivery delivery;
  std::string content;
};

// The attachments of a delivery that came from another home, or waited.
struct Attached {
  std::string message_id;
  std::vector<Attachment> attachments;
};

struct Subscription {
  std::string channel;
  std::string agent;
  bool is_on = true;
};

struct Plan {
  std::optional<Transaction> transaction;  // begun by the first part of the plan that needs it
  std::vector<Candidate> candidates;
  std::vector<Outgoing> messages;
  std::vector<Restaged> restaged;  // deliveries that waited in the ledger, and go now
  std::vector<Restaged> rerouted;  // deliveries that waited, and now go to agents of other homes
  std::vector<Attached> attached;  // of those that are restaged, rerouted or stored
  std::vector<Delivery> retried;   // staged long ago
  bool has_more_retries = false;
  std::set<std::string> ids;    // of the messages
  std::vector<Change> changes;  // of earlier rounds
  std::set<std::int64_t> read;  // deliveries among the changes
  std::vector<Change> acks;     // of this round, with deliveries it found dead; planned again if it is abandoned
  std::vector<Filing> filings;
  std::vector<AgentRow> agents;
  std::vector<Subscription> subscriptions;
  std::vector<std::pair<std::int64_t, std::string>> closed;  // dead letters, and how
  std::vector<OperationEnd> operations;                      // done by this round
  std::set<std::string> released;                            // whose waiting deliveries were looked at
  std::set<std::string> seen;                                // agents that sent something
  std::size_t delivery_count = 0;
  Supervision supervision;                         // of agents that the relay starts
  std::unordered_map<std::int64_t, bool> entered;  // arrivals by stamp: whether as completed
  bool drops_bodies = false;                       // those in unneeded_bodies_
  bool is_trial = false;                           // of one operation, and nothing else

  bool is_empty() const;
  bool must_be_durable() const;  // before it is carried out
};

// One thread.
class Relay {
 public:
  // Locks the root (kBusy if a relay is up), repairs it, opens the ledger and recovers.
  // `ledger` is the address of a PostgreSQL database, and is kept in config.json; "": the one config.json names. If it
  // is unavailable, run() waits for it first; an error that waiting does not cure (a wrong password) fails at once.
  static Result<std::unique_ptr<Relay>> start(const std::string& path, Clock& clock, LauncherOptions launch = {},
                                              const std::string& ledger = "");
  ~Relay();

  // Serves until `stop` becomes readable, and finishes the messages it has accepted.
  Status run(int stop);

  Metrics& metrics() { return metrics_; }       // for any thread
  void set_metrics_address(std::string where);  // they are served there: before run()

 private:
  Relay(std::unique_ptr<Root> root, Config config, Clock& clock, LauncherOptions launch);
  Status open();
  Status open_once();
  bool is_open() const { return housekeeper_ != nullptr; }
  Result<bool> wait_for_ledger(int stop);  // false: `stop` became readable
  void note_ledger_away(const Error& why);
  Status recover();
  Status recover_read(bool is_after_power_cut);
  Result<std::int64_t> resume(bool is_after_power_cut);  // pending deliveries; returns how many
  Status publish_again(const std::vector<Delivery>& page, bool is_after_power_cut, std::set<std::string>& failing);
  Status record_again(const std::vector<Delivery>& page);
  Status remove_orphans();
  void add_agents();
  void add_agent(const std::string& name, std::int64_t now_us);
  void rescan();
  void on_poke();
  Result<bool> round();  // whether there was something to do
  void finish();
  void take_hashed();
  Status sleep(int stop);
  bool has_news() const {
    return !changes_.empty() || !left_.empty() || !agent_changes_.empty() || !supervisor_.ends().empty() ||
           !unneeded_bodies_.empty();
  }
  std::int64_t wake_at_ns() const;

  // After a power cut: relay_mend.cc.
  Status mend_inboxes();
  Status mend_dir(const std::string& agent, const std::string& path, bool is_done);
  Status mend_known(int dir, const Delivery& delivery, bool is_done);
  Status restore(int dir, const Delivery& delivery, std::string_view content);
  void restore_taken(const Delivery& delivery, std::string_view content);
  bool will_come_again(std::string_view file, const Message& message) const;
  void recognise(Outgoing& outgoing);

  // Planning: relay_plan.cc for files in outboxes, relay_progress.cc for everything else.
  Status plan_new(Plan& plan);  // everything but changes of earlier deliveries
  Status plan_candidates(Plan& plan);
  Status begin_early(Plan& plan);
  Status plan_candidate(Plan& plan, const Candidate& candidate);
  void plan_message(Plan& plan, Outgoing outgoing);
  std::uint64_t bytes_max_of(const MessageRow& known) const;
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

  enum class Share { kNone, kSome, kMore, kAll };
  Status plan_changes(Plan& plan, Share part);
  Status plan_left(Plan& plan);
  void note_left(std::vector<LeftInbox> left);
  Status check_inbox(Plan& plan);
  Status plan_waiting(Plan& plan);
  Status plan_retries(Plan& plan);
  Status plan_operations(Plan& plan);
  // These three: kWaits for an attachment that is being hashed, and take_hashed() has it planned again.
  Result<Readiness> plan_operation(Plan& plan, const Operation& operation);
  Result<Readiness> plan_letter(Plan& plan, const Operation& operation, std::int64_t letter);
  Result<Readiness> redeliver(Plan& plan, const DeadLetter& letter);
  Result<Readiness> restage(Plan& plan, Delivery delivery);
  Result<Readiness> restage_or_bury(Plan& plan, const Delivery& delivery, const std::string& recipient);
  std::string agent_for(const std::string& recipient) const;
  void give_up(Plan& plan, const Operation& operation, const std::string& why);
  void suspect(const Plan& plan, const Error& why);
  void note_receipt(Plan& plan, const Delivery& delivery, std::string_view state, std::string_view error);
  void notify(Plan& plan, std::string_view agent, Message message);
  void nack(Plan& plan, std::string_view agent, std::string_view reference, const Error& why);
  Result<Message> load(std::string_view message_id);
  Share due_news(const Plan& plan) const;  // how many changes of earlier deliveries this round records
  std::int64_t rest_ns() const;            // how long the relay must have been idle before it records them
  // In the ledger, or among the arrivals that are not entered yet.
  Result<std::optional<MessageRow>> find_message(std::string_view id);
  Result<std::optional<Delivery>> find_in_inbox(std::string_view recipient, std::string_view inbox_name);
  Result<std::optional<Delivery>> find_to(std::string_view message_id, std::string_view recipient);

  // Agents: relay_agents.cc.
  Status recover_agents();
  Status plan_spawn(Plan& plan, const Outgoing& outgoing);
  Status check_spawn(const Plan& plan, const SpawnRequest& request, const std::string& spawner) const;
  Status check_name_to_spawn(const Plan& plan, const std::string& name, const std::string& spawner) const;
  bool is_asked_here(const Operation& operation) const;
  Status plan_start(Plan& plan, const Operation& operation);
  void note_start_failed(Plan& plan, Life life, const Error& why);
  Result<Child> start_agent(Life& life);
  Status plan_release(Plan& plan, const Outgoing& outgoing);
  Result<std::string> find_home_of_life(const std::string& name);
  Status plan_release_for(Plan& plan, const Json& payload);
  struct Releaser {
    std::string agent;
    std::string message_id;  // that asks for it
  };
  Status release_here(Plan& plan, const ReleaseRequest& request, const Releaser& by);
  void release(Plan& plan, const Life& life, std::string_view releaser, std::string_view why);
  Status plan_continuity(Plan& plan, const Outgoing& outgoing);
  Status plan_save(Plan& plan, const Outgoing& outgoing, ContinuityRequest request);
  Status plan_load(Plan& plan, const Outgoing& outgoing, const ContinuityRequest& request);
  void plan_ends(Plan& plan);
  void plan_end(Plan& plan, const Ended& ended);
  std::optional<Life> find_life(const Plan& plan, std::string_view name) const;
  void put_status(Plan& plan, const std::string& agent, std::string_view status);
  void tell_of_life(Plan& plan, const std::string& agent, const Life& life, std::string_view state);
  bool may_command(const std::string& agent, const std::string& name) const;
  std::string find_superior(const std::string& name) const;
  Status check_token(const Outgoing& outgoing);
  Error denied(const Outgoing& outgoing, std::string why);
  Error denied(std::string_view message_id, std::string_view kind, std::string why);
  Status record_agents(const Plan& plan);
  Status look_up_agents();
  void carry_out(Plan& plan);
  void write_meta(const Life& life);
  void note_active(const std::string& agent);
  void look_at_agents();
  bool has_mail(const std::string& agent) const;

  // Ledgers that several relays share: relay_shared.cc.
  void hear_news();
  Status refresh_ledger();
  Status recover_in_doubt();
  Status reload_agents();
  Result<bool> claim_agent(const std::string& name, std::int64_t now_us);
  Result<bool> claim_name(const AgentRow& agent);
  void expect(const std::vector<Candidate>& candidates);
  void expect(const std::vector<LeftInbox>& left, std::size_t count);
  Status plan_routed(Plan& plan);
  Status plan_arrival(Plan& plan, RoutedDelivery arrival);
  Result<Readiness> plan_attachments(Plan& plan, const Delivery& delivery, const Message& message);
  Result<Readiness> publish_attachments(const Message& message, const std::string& sender, const std::string& waiter);
  std::set<std::string> list_passed_over() const;
  Status record_body(Outgoing& outgoing);
  void suspend(Plan plan, const Error& why);

  // Carrying out: relay_round.cc.
  Status stage(Plan& plan);
  Status stage_message(Outgoing& outgoing);
  Status commit(Plan& plan, SyncBatch& staged);
  Status record_message(Outgoing& outgoing);
  Status record_changes(Plan& plan, const std::vector<Change>& changes);
  Status record_change(const Change& change);
  Status update_statuses(const Plan& plan, const std::vector<Change>& changes);
  Status record_rest(const Plan& plan);
  Result<std::size_t> drop_bodies(const Plan& plan);
  void publish(Plan& plan);
  Status check_syncs();
  std::vector<Filing> file(std::vector<Filing> filings);  // in the syncer's thread; returns those to try again
  void collect_fresh(Wait wait);
  void release_body(std::int64_t stamp);
  void publish_one(const Delivery& delivery);
  template <typename Changes>
  void keep_failing(const Changes& changes);
  void abandon(Plan plan, const Error& why);
  void withdraw(const Delivery& delivery);
  Status clear_doubt();
  void retry(Delivery delivery, std::string_view why);

  // Metrics, the log, and idle work: relay_observe.cc.
  void observe_round(const Plan& plan);
  void observe_messages(const Plan& plan);
  void observe_changes(const std::vector<Change>& changes);
  void observe_requests(const Plan& plan);
  void observe_published(const Delivery& delivery);
  void observe_failure(const Error& why);
  void observe_outboxes();
  void count_agents();
  void look_at_disk();
  bool run_idle_work();  // a little housekeeping of the ledger; false: nothing to do
  Status forget_finished(const std::vector<std::string>& ids);

  std::int64_t now_ms() { return clock_.now_us() / 1000; }
  std::int64_t next_stamp_ns();
  std::string archive_path(std::string_view agent, std::string_view file);

  std::unique_ptr<Root> root_;
  Config config_;
  Clock& clock_;
  Log log_;
  Mailroom mailroom_;
  Mailroom archivist_;  // of the syncer's thread
  Router router_;
  Launcher launcher_;
  Supervisor supervisor_;
  std::unique_ptr<Ledger> ledger_;
  std::uint64_t asked_ = 0;                   // the last sync that was asked for
  std::map<std::string, std::string> taken_;  // after a power cut: files in .done that the ledger does not know
  std::unique_ptr<Attachments> attachments_;
  std::unique_ptr<Watcher> watcher_;
  FreshDeliveries fresh_;
  Arrivals arrivals_;
  std::unordered_map<std::int64_t, std::size_t> bodies_;  // in the ledger: stamp → deliveries that may need it
  std::deque<std::int64_t> unneeded_bodies_;              // to be dropped by the next rounds
  bool keeps_bodies_ = false;                             // small files are not synced before the commit
  std::deque<Change> changes_;                            // to be recorded by the next rounds
  bool is_awaited_ = false;                               // one of them is to be reported to an agent
  std::vector<LeftInbox> left_;                           // files that left inboxes: the next rounds record them
  std::vector<AgentRow> agent_changes_;                   // to be recorded by the next round
  std::set<std::string> to_release_;                      // agents (or Lead) whose waiting deliveries may go
  std::set<std::string> waiting_releases_;                // of these, the ones that wait for an attachment to be hashed
  std::map<std::string, std::int64_t> inbox_checks_;      // agent → delivery it was checked up to
  std::map<std::string, std::int64_t> failing_;           // recipient → when it is tried again, so that order is kept
  bool operations_wanted_ = true;
  std::set<std::int64_t> suspects_;               // operations of a round that failed: each is tried alone
  std::map<std::int64_t, std::string> given_up_;  // operations that failed alone, and why
  std::int64_t newest_stamp_ns_ = 0;
  std::map<std::string, std::int64_t> touched_us_;      // agent → last_seen_at as it was last recorded
  std::map<std::string, std::int64_t> newest_sent_ns_;  // sender → by the names of its files
  std::int64_t retry_at_ns_ = INT64_MAX;                // monotonic
  std::int64_t flush_at_ns_ = 0;                        // monotonic: when changes_ are recorded, be they few
  std::int64_t busy_at_ns_ = 0;                         // monotonic: the end of the last round with anything new
  bool is_ending_ = false;                              // nothing new is taken
  std::int64_t paused_until_ns_ = 0;
  std::int64_t dirs_until_ns_ = 0;                 // monotonic: how long open inboxes stay open
  std::map<std::string, std::int64_t> active_ns_;  // agent → when it last sent or took something (monotonic)
  std::set<std::string> idle_;                     // agents we made inactive ourselves
  bool agents_doubtful_ = false;                   // a failed commit that changed lives may have happened
  bool is_doubtful_ = false;                       // the commit that failed just now may have happened
  std::vector<std::string> doubtful_;              // staged for such commits
  int failures_ = 0;                               // rounds in a row that could not be carried out
  std::mt19937_64 random_;
  std::int64_t news_at_ns_ = INT64_MAX;  // monotonic: when a shared ledger is asked without a notification
  bool routed_wanted_ = false;
  std::set<std::string> waiting_arrivals_;  // SENDER>RECIPIENT: their attachments are being fetched
  std::set<std::string> passed_over_;       // when routed deliveries were last claimed; recipients as well
  bool agents_stale_ = false;
  bool has_recovered_ = false;  // ever, in this process
  bool names_wanted_ = false;   // agents whose names could not be claimed yet
  bool must_recover_ = false;   // whether the last commit happened is not known
  std::int64_t agents_version_ = 0;
  std::set<std::string> refused_names_;  // of agents at home elsewhere; logged already
  std::int64_t outboxes_at_ns_ = 0;      // when their files are counted again
  std::int64_t forget_at_ns_ = 0;        // monotonic: rows are not removed before
  Metrics metrics_;
  DiskWatch disk_;
  std::unique_ptr<LedgerSyncer> syncer_;  // the last two: their threads use the members above
  std::unique_ptr<Housekeeper> housekeeper_;
};

std::string text_in(const Json& payload, const char* key);  // of an operation; "" if there is none
std::string message_of(const Operation& operation);         // the id of the message that requests it

bool is_shortage(const Error& error);  // of descriptors or space: the operation is repeated as it was

// The content of a file in an inbox: the message with its sender and its id as the first headers.
std::string render(const Message& message, std::string_view sender, std::string_view id);

// The name of a file in an inbox: sorts by the stamp, and is unique to the message.
std::string inbox_name(std::string_view message_id, std::int64_t stamp_ns);

}  // namespace warren::relay
