// What a round does: decided first, and then staged, recorded and published as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "relay/delivery/watcher.h"
#include "relay/ledger/ledger.h"
#include "relay/ledger/ledger_syncer.h"
#include "relay/protocol/attachment.h"
#include "relay/protocol/message.h"
#include "relay/spawn/supervisor.h"

namespace warren::relay {

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
  std::vector<DeliveredTo> located;  // delivered earlier; which inbox has them was not known
  std::string located_in;            // the agent of that inbox
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

}  // namespace warren::relay
