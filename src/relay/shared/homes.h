// Sharing a ledger between relays: the home of each agent, messages from one relay to another, and fencing of a relay
// that was replaced.
//
// Each relay's root is a home with an id. An agent's home is where its directory is; only that relay takes messages
// from its outbox and puts files into its inbox. A message for an agent of another home is recorded as routed, with its
// content; the other relay is notified (NOTIFY), claims it and delivers it. The reasoning is in docs/design/relay.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger_engine.h"

namespace warren::relay {

struct Home {
  std::string id;     // of the root; never changes
  std::string label;  // for people: host and path
};

// Tables relay_homes, agent_homes, message_bodies, operation_homes and ledger_versions, and notifications to other
// relays. Changes noted by note_…() and wake() are written by before_commit().
// For one thread. The engine must outlive it.
class Homes {
 public:
  static Result<std::unique_ptr<Homes>> open(LedgerEngine& engine, Home home, Clock& clock);
  static Status create_tables(LedgerEngine& engine);

  const std::string& id() const { return home_.id; }

  // From now on this process serves the home; the one that did so before is fenced out. Waits for its transaction.
  Status serve();
  bool is_serving() const { return epoch_ != 0; }
  bool is_fenced() const { return is_fenced_; }
  // The first call in every transaction of a relay: makes a successor wait for its end. kStale: there is a successor.
  Status fence();
  Status before_commit();
  void after_end();  // after commit or rollback

  void wake(std::string_view home) { woken_.insert(std::string(home)); }
  void note_agents_changed() { agents_changed_ = true; }
  // Messages whose status is updated before the commit. Their locks are taken last and in order of their ids, so that
  // of two relays that update the same messages one waits. Without the lock each could see the other's delivery as
  // open, and neither would complete the message.
  void note_status_update(std::string_view message_id) { status_updates_.insert(std::string(message_id)); }
  const std::set<std::string>& status_updates() const { return status_updates_; }
  Status lock_message(std::string_view message_id);
  void note_newest_ns(std::int64_t stamp_ns) { newest_ns_ = stamp_ns; }
  Result<std::int64_t> newest_ns();  // newest timestamp of this home's inbox file names
  Result<std::int64_t> agents_version();

  Result<std::map<std::string, std::string>> labels();  // home → label
  Result<std::optional<std::string>> find(std::string_view agent);
  // False: the name belongs to another home and is not terminated there.
  Result<bool> claim(std::string_view agent);
  // Takes the agent over, even from another home. Returns the number of pending deliveries that stay at the other home.
  Result<std::int64_t> adopt(std::string_view agent);

  Status put_body(std::string_view message_id, std::string_view content);
  Result<std::optional<std::string>> find_body(std::string_view message_id);
  Status drop_body(std::string_view message_id);  // unless a future delivery needs it

  Status own_operation(std::int64_t operation, std::string_view home);

 private:
  Homes(Home home, Clock& clock) : home_(std::move(home)), clock_(clock) {}
  Status prepare(LedgerEngine& engine);

  Home home_;
  Clock& clock_;
  std::int64_t epoch_ = 0;
  bool is_fenced_ = false;
  std::set<std::string> woken_;
  std::set<std::string> status_updates_;
  bool agents_changed_ = false;
  std::int64_t newest_ns_ = 0;
  std::int64_t written_newest_ns_ = 0;

  Statement begin_serving_, fence_, put_newest_, newest_, put_version_, version_, notify_;
  Statement labels_, find_, claim_, move_, move_deliveries_, under_way_;
  Statement put_body_, find_body_, drop_body_, own_operation_, lock_message_;
};

}  // namespace warren::relay
