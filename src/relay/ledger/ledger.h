// The ledger: all messages, their recipients, and the state of each delivery. It is authoritative: after a crash the
// directories are made to agree with it.
//
// Tables messages, agents, orchestrator_state and pending_operations are defined by the relay's specification. Added
// are deliveries (one message may have many recipients), subscriptions, dead_letters, lives (of agents the relay
// started), continuity, arrivals, and the tables of attachments. See docs/design/relay.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "os/processes/process.h"
#include "relay/ledger/ledger_engine.h"
#include "relay/protocol/attachment.h"
#include "relay/shared/homes.h"

namespace warren::relay {

// Stored as the words of name_of(). A delivery only moves forward: pending, delivered, read, acked or nacked.
enum class DeliveryState {
  kPending,    // staged in tmp/deliveries, or already renamed from there
  kDelivered,  // in the inbox, durably
  kRead,       // left the inbox, or was moved to inbox/.done
  kAcked,
  kNacked,
  kStored,  // the recipient is inactive
  kHeld,    // there is no lead yet
  kDead,    // see dead_letters
  kRouted,  // for an agent of another home, whose relay has not taken it yet
};
std::string_view name_of(DeliveryState state);
Result<DeliveryState> parse_state(std::string_view word);

struct MessageRow {
  std::string id;         // sender/stem
  std::string agent;      // the sender
  std::string direction;  // outbox: from an agent; inbox: made by the relay
  std::string path;       // in the archive, relative to the root
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::string checksum;  // of the whole file
  std::string status;    // processing, completed, failed
  std::string type;      // KIND
  std::string target;    // TO
  std::int64_t discovered_at_us = 0;
  std::string error;
  std::int64_t number = 0;           // of its row, if assigned before the row exists; otherwise 0
  std::int64_t processed_at_us = 0;  // 0: still processing
};

struct Delivery {
  std::int64_t id = 0;
  std::string message_id;
  std::string recipient;
  DeliveryState state = DeliveryState::kPending;
  std::string inbox_name;  // of the file
  bool wants_receipt = false;
  int attempts = 0;
  std::int64_t next_at_ms = 0;   // wall time
  std::int64_t deadline_ms = 0;  // wall time; 0: none
  std::string error;
  std::int64_t discovered_ns = 0;  // monotonic; not stored, so 0 when read from the ledger
  std::string home;                // in a shared ledger: the home that delivers it; "": the one that records it
  std::int64_t inbox_born_ns = 0;  // when the inbox that has its file was created; stored by set_inbox() only
};

// The inbox that a file was delivered to. The time is its identity, and is never compared with a clock.
struct DeliveredTo {
  std::int64_t delivery = 0;
  std::int64_t inbox_born_ns = 0;  // 0: not known
};

std::int64_t stamp_of(const Delivery& delivery);  // the one in its inbox name; unique to the message within a relay

struct UnsyncedBody {
  std::int64_t stamp = 0;
  std::string message_id;
};

struct RoutedDelivery {
  Delivery delivery;
  std::optional<std::string> content;
};

struct AgentRow {
  std::string name;
  std::int64_t registered_at_us = 0;
  std::int64_t last_seen_at_us = 0;
  std::string status;  // active, inactive, terminated
  std::string home;    // in a shared ledger: the home that serves it
};

// Stored as the words of name_of().
enum class LifeState {
  kAsked,      // recorded before the process is started
  kRunning,    // its process is recorded, and its program was allowed to run after that
  kReleasing,  // to be ended
  kExited,     // ended by itself
  kReleased,   // ended by us, on request
  kFailed,     // never started
};
std::string_view name_of(LifeState state);

// One run of an agent that the relay starts. A name may have several lives, one after another.
struct Life {
  std::string name;
  std::int64_t number = 1;
  std::string message_id;  // of the request
  std::string spawner;
  std::int64_t depth = 1;  // 1: its spawner was not started by us
  std::string cli;
  std::string dir;
  ProcessIdentity process;
  std::string token_sha256;
  LifeState state = LifeState::kAsked;
  std::string releaser;  // "": the relay itself
  std::string outcome;   // how it ended, or why it is being ended
  std::int64_t asked_at_us = 0;
  std::int64_t started_at_us = 0;
  std::int64_t ended_at_us = 0;

  bool has_process() const { return state == LifeState::kRunning || state == LifeState::kReleasing; }
};

struct SavedState {
  std::string agent;
  std::int64_t version = 0;
  std::int64_t saved_at_us = 0;
  std::string content;
};

struct DeadLetter {
  std::int64_t id = 0;
  std::string message_id;
  std::string recipient;
  std::string reason;
  std::int64_t died_at_us = 0;
};

// A request to the relay, made through the ledger.
struct Operation {
  std::int64_t id = 0;
  std::string type;  // redeliver, discard, collect, spawn, release, carry
  std::string payload;
};
std::string text_in(const Json& payload, const char* key);  // "" if there is none

struct OperationEnd {
  std::int64_t id = 0;
  std::string error;  // "": it succeeded
};

struct RecordedOperation {
  Operation operation;
  std::int64_t requested_at_us = 0;
  std::int64_t ended_at_us = 0;  // 0: still open
  std::string error;
};

struct MessageFilter {
  std::int64_t before_id = INT64_MAX;
  std::size_t limit = 50;
};

struct DueFilter {
  std::int64_t now_ms = INT64_MAX;
  int attempts_min = 0;
  std::int64_t after = 0;
  std::size_t limit = 256;
};

struct StoredMessage {
  std::int64_t row = 0;
  MessageRow message;
};

struct Counts {
  std::map<std::string, std::int64_t> messages;    // by status
  std::map<std::string, std::int64_t> deliveries;  // by state
  std::int64_t dead_letters = 0;
  std::int64_t failed_operations = 0;
};

struct Finished {
  std::string message_id;
  std::int64_t discovered_at_us = 0;
};

enum class LedgerUse { kServe, kRequest, kRead };  // the relay; a command that requests something; a reader

class Ledger;

// Rolls back unless it was committed.
class Transaction {
 public:
  explicit Transaction(Ledger& ledger) : ledger_(&ledger) {}
  Transaction(Transaction&& other) noexcept : ledger_(std::exchange(other.ledger_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();
  Status commit_unsynced();  // see LedgerEngine

 private:
  Status end(Status committed);
  Ledger* ledger_;
};

// One thread; processes are isolated by SQLite or PostgreSQL. The caller makes changes in a transaction of its own, so
// that many messages share one.
class Ledger {
 public:
  // `where` is a file, or postgres://…; `home`, the relay it is opened for, is used with the latter only.
  static Result<std::unique_ptr<Ledger>> open(const std::string& where, LedgerUse use, Clock& clock, Home home = {});

  Clock& clock() { return clock_; }
  Result<Transaction> begin();

  // For a ledger that several relays share: ledger_shared.cc. Null for any other, whose engine is always available.
  Homes* homes() { return homes_.get(); }
  LedgerEngine& engine() { return *db_; }
  // Deliveries for agents of this home, oldest first, locked until the end of the transaction. `passed_over` lists
  // recipients and pairs SENDER>RECIPIENT, each between commas.
  Result<std::vector<RoutedDelivery>> claim_routed(std::string_view passed_over, std::size_t limit);
  Status reroute(const Delivery& delivery);  // to the delivery's home
  // Prefetches for find_message() and find_in_inbox(): with a remote database, one round trip for all of them.
  void expect_messages(const std::vector<std::string>& ids);
  void expect_in_inboxes(const std::vector<std::pair<std::string, std::string>>& files);  // agent and name

  Status add_message(const MessageRow& message);
  Status add_delivery(Delivery& delivery);  // sets its id
  Status set_state(const Delivery& delivery, DeliveryState state, std::string_view error = {});
  Status set_retry(const Delivery& delivery);
  Status set_pending(const Delivery& delivery);  // pending again, for its current recipient
  // A message is completed when no delivery of it is open, failed when one of them died.
  Status update_status(std::string_view message_id);
  Status bury(const Delivery& delivery, std::string_view reason);  // dead, with a dead letter
  Status bury_message(std::string_view message_id, std::string_view reason);
  Status close_dead_letter(std::int64_t id, std::string_view resolution);  // kConflict: it is closed already

  Result<std::optional<StoredMessage>> find_message(std::string_view id);
  Result<std::optional<Delivery>> find_delivery(std::int64_t id);
  Result<std::optional<Delivery>> find_in_inbox(std::string_view recipient, std::string_view inbox_name);
  Result<std::optional<Delivery>> find_to(std::string_view message_id, std::string_view recipient);
  Result<std::vector<Delivery>> list_deliveries(std::string_view message_id);
  // Pending deliveries after `after`, in order of id. In pages, since there may be a million.
  Result<std::vector<Delivery>> due(const DueFilter& filter);
  Result<std::optional<std::int64_t>> next_due_ms(std::int64_t now_ms);  // of failed deliveries that wait for a retry
  // The inboxes of delivered messages: an agent's directory may be replaced. Not recorded in a shared ledger.
  Status set_inbox(const DeliveredTo& to);
  Result<std::map<std::int64_t, std::int64_t>> list_inboxes(std::string_view recipient, std::int64_t after,
                                                            std::size_t limit);  // delivery → inbox_born_ns
  Result<std::vector<Delivery>> in_state(std::string_view recipient, DeliveryState state, std::int64_t after,
                                         std::size_t limit);
  Result<std::int64_t> newest_inbox_ns();  // of all inbox names ever assigned

  Result<std::vector<AgentRow>> list_agents();
  Status put_agent(const AgentRow& agent);
  Status touch_agent(std::string_view name);
  Status set_agent_pid(std::string_view name, std::int64_t pid);  // 0: none
  // All lives that are asked for, and for each agent the newest life that had a process.
  Result<std::vector<Life>> list_lives();
  Result<std::optional<Life>> find_life(std::string_view message_id);
  Result<std::int64_t> next_life(std::string_view name);                        // its number
  Result<std::optional<std::string>> find_home_of_life(std::string_view name);  // the home that started it last
  Status put_life(const Life& life);
  // The newest state, or the one with that version.
  Result<std::optional<SavedState>> find_state(std::string_view agent, std::optional<std::int64_t> version = {});
  Result<std::int64_t> newest_version(std::string_view agent);  // 0: none saved
  Status save_state(const SavedState& state, std::int64_t versions_kept);
  Result<std::map<std::string, std::set<std::string>>> list_subscriptions();  // channel → agents
  Status subscribe(std::string_view channel, std::string_view agent);
  Status unsubscribe(std::string_view channel, std::string_view agent);

  Result<std::vector<DeadLetter>> list_dead(std::size_t limit);
  Result<std::optional<DeadLetter>> find_dead(std::int64_t id);
  Result<std::vector<StoredMessage>> list_messages(const MessageFilter& filter);
  Result<Counts> count();

  // Operations: ledger_operations.cc. request() adds one for the relay at the home of `agent`; without an agent, for
  // this one. Returns its id.
  Result<std::int64_t> request(std::string_view type, std::string_view payload, std::string_view agent = {});
  Result<std::int64_t> request_at(std::string_view home, std::string_view type, std::string_view payload);
  // One at a time for each letter and type. kConflict: the letter is closed; kBusy: the same was requested before, and
  // is not done yet.
  Result<std::int64_t> request_for_letter(std::int64_t letter, std::string_view type);
  Error no_letter(std::int64_t id);  // why there is no open dead letter with that number
  Result<std::vector<Operation>> open_operations(std::int64_t after, std::size_t limit);  // for this relay, by id
  Status end_operation(const OperationEnd& end);
  Result<std::optional<OperationEnd>> find_end(std::int64_t operation);       // nothing: it has not ended
  Result<std::vector<RecordedOperation>> list_operations(std::size_t limit);  // open and failed ones, newest first

  Result<std::optional<std::string>> find_value(std::string_view key);  // orchestrator_state
  Status put_value(std::string_view key, std::string_view value);

  // Lists problems that SQLite finds in the file, and messages whose status does not match their deliveries.
  Result<std::vector<std::string>> check();
  Status update_statuses();
  Result<bool> is_needed(std::string_view message_id);  // its file, by a future delivery or a dead letter

  // Attachments: ledger_attachments.cc.
  Status put_attachment(const AttachmentRow& attachment);  // is_referenced is not stored
  Status remove_attachment(std::string_view hash);
  Result<std::optional<AttachmentRow>> find_attachment(std::string_view hash);
  Result<std::vector<AttachmentRow>> list_attachments(std::string_view prefix);  // of the hash, two digits
  Status add_reference(std::string_view hash, std::string_view message_id);      // may be repeated
  Status remove_reference(const AttachmentReference& reference);
  Result<std::vector<AttachmentReference>> list_references(const AttachmentReference& after, std::size_t limit);
  Status shift_unreferenced(std::int64_t us);
  Result<std::vector<std::string>> list_homes_with(std::string_view hash);  // other homes that have the file

  // Messages just taken: ledger_arrivals.cc. Not in a shared ledger. Before arrivals are entered, the functions above
  // find them only for readers (kRead); the relay has its own copy (`Arrivals`).
  Status put_arrival(MessageRow& message, Delivery& delivery, std::string_view content);  // sets both numbers
  Status enter(MessageRow message, Delivery delivery);  // as completed, unless it is pending
  Status enter_all();                                   // as pending; in transactions of its own
  // Contents of files that are delivered without being synced first. An arrival has its content already.
  Status put_body(const Delivery& delivery, std::string_view content);  // for all deliveries with that inbox name
  Result<std::optional<std::string>> find_body(const Delivery& delivery);
  Result<std::vector<UnsyncedBody>> list_bodies(std::int64_t after, std::size_t limit);
  Status drop_body(std::int64_t stamp);
  Status drop_bodies();

  // Retention: ledger_sweep.cc. A message is finished when it has no open or unread delivery and no dead letter.
  Result<std::map<std::string, std::int64_t>> count_waiting(std::size_t limit);  // agents with the most unread messages
  Result<bool> has_needed_below(std::string_view directory);                     // files for which is_needed() holds
  Result<std::vector<Finished>> list_finished(std::int64_t before_us, std::int64_t from_us, std::size_t limit);
  Result<bool> remove_finished(std::string_view message_id);            // with its deliveries; false: not finished
  Status remove_operations(std::int64_t before_us, std::size_t limit);  // completed ones

  Status backup_to(const std::string& path) { return db_->backup_to(path); }

 private:
  friend class Transaction;
  Ledger(std::unique_ptr<LedgerEngine> db, Clock& clock) : db_(std::move(db)), clock_(clock) {}
  Status share(LedgerUse use, Home home);
  Status serve_home();
  Status create_tables_patiently();
  Status create_tables();
  Status prepare_commit();
  Status commit();
  Status commit_unsynced();
  void rollback();
  const std::string& home() const { return homes_ ? homes_->id() : kNoHome; }
  std::string scoped(std::string_view key) const;  // each home has its own orchestrator_state
  struct Prepared {
    Statement* statement;
    Sql sql;
  };
  Status prepare_all(std::span<const Prepared> statements);
  Status prepare_messages();  // and deliveries and dead letters
  Status prepare_others();
  Status create_agent_tables();  // ledger_agents.cc
  Status prepare_agents();
  Status create_attachment_tables();
  Status create_arrival_tables();
  Status add_inbox_column();
  Status prepare_arrivals(LedgerUse use);
  Status prepare_inboxes();
  Status prepare_reading();
  Status find_numbers();
  Result<std::size_t> enter_some(std::size_t limit);
  Status prepare_attachments();
  Status prepare_sweep();
  Status create_operation_tables();
  Status prepare_operations();
  Status prepare_shared();
  static Result<Delivery> delivery_of(Rows& rows);
  static StoredMessage message_of(Rows& rows);
  Result<std::vector<Delivery>> all(Statement& statement);

  inline static const std::string kNoHome;
  std::unique_ptr<LedgerEngine> db_;
  Clock& clock_;
  std::unique_ptr<Homes> homes_;
  bool has_operation_errors_ = false;
  bool keeps_arrivals_ = false;
  bool reads_arrivals_ = false;
  std::int64_t message_number_ = 0;  // the last one assigned
  std::int64_t delivery_number_ = 0;
  Statement add_message_, add_delivery_, set_state_, set_retry_, set_pending_, update_status_, add_dead_, close_dead_;
  Statement find_message_, find_delivery_, find_in_inbox_, find_to_, list_deliveries_, due_, next_due_, in_state_,
      newest_;
  Statement list_agents_, put_agent_, touch_agent_, list_subscriptions_, subscribe_, unsubscribe_;
  Statement list_dead_, find_dead_, list_messages_, count_messages_, count_deliveries_, count_dead_;
  Statement request_, operations_, complete_, find_value_, put_value_;
  Statement find_operation_, fail_operation_, find_outcome_, list_operations_, count_failed_, remove_errors_;
  Statement lock_dead_, is_closed_;
  Statement set_pid_, list_lives_, find_life_, next_life_, put_life_, home_of_life_;
  Statement find_state_, newest_state_, newest_version_, save_state_, drop_states_;
  Statement wrong_statuses_, is_needed_, claim_routed_, reroute_;
  Statement put_attachment_, remove_attachment_, find_attachment_, list_attachments_;
  Statement add_reference_, remove_reference_, list_references_, shift_unreferenced_, homes_with_;
  Statement count_waiting_, needed_below_, list_finished_, remove_message_, remove_deliveries_, remove_letters_,
      remove_operations_;
  Statement set_inbox_, list_inboxes_;
  Statement put_body_, find_body_, list_bodies_, drop_body_, drop_bodies_, put_arrival_, list_arrivals_,
      count_arrivals_;
  Statement states_, finish_;
};

}  // namespace warren::relay
