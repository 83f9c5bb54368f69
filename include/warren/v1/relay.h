// A client of a relay: an agent's side of sending and receiving messages (docs/relay.md).
//
// It needs no running relay: messages wait in the outbox.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>

namespace warren::v1 {

struct RelayHeader {
  std::string name{};
  std::string value{};
};

// A file that travels beside a message.
struct RelayAttachment {
  std::string hash{};  // SHA-256 of its content, 64 hexadecimal digits
  std::string name{};  // as the sender calls it; may be empty, and is not to be trusted as a path
};

struct RelayMessage {
  std::string to{};  // an agent, "*" (all others), "#channel", "Lead" or "__orchestrator__"
  std::string kind = "message";
  std::string thread{};
  int priority = 5;                            // 0 (first) to 9
  bool wants_receipt = false;                  // receipts arrive in the sender's inbox
  std::string reference{};                     // in an answer: the message that it is about
  std::vector<RelayHeader> headers{};          // others
  std::vector<RelayAttachment> attachments{};  // of attach(); at most 16
  std::string body{};                          // any bytes
};

struct RelayMail {
  std::string file{};  // its name in the inbox
  std::string id{};
  std::string from{};                // by the relay: can be trusted
  std::int64_t delivered_at_us = 0;  // microseconds since 1970
  RelayMessage message{};
};

// How far a message is with one recipient.
struct RelayDelivery {
  std::string recipient{};
  std::string state{};  // pending, delivered, read, acked, nacked, stored, held, dead, routed
  std::string error{};  // of nacked and dead
};

enum class Register : std::uint8_t { kNo = 1, kYes = 2 };

struct RelayOptions {
  std::string root{};   // the relay's directory; empty: $WARREN_RELAY_ROOT, or ~/.agent-relay
  std::string agent{};  // who you are
  // What the relay gave to an agent that it started. Empty: $AGENT_RELAY_TOKEN, if $AGENT_RELAY_NAME is the agent.
  std::string token{};
  Register registers = Register::kNo;  // kYes: register the agent if it is not registered yet
};

// For one thread.
class RelayClient {
 public:
  // kNotFound: there is no relay, or no such agent; kDenied: the agent belongs to another user.
  static Result<std::unique_ptr<RelayClient>> open(const RelayOptions& options);
  ~RelayClient();
  RelayClient(const RelayClient&) = delete;
  RelayClient& operator=(const RelayClient&) = delete;

  // Returns the message's id once it is durable in the outbox: it is neither lost nor delivered twice. kInvalid for a
  // header that is not one line.
  Result<std::string> send(const RelayMessage& message);
  // Stores the content of a file for a message that is sent within the hour.
  Result<RelayAttachment> attach(const std::string& path);

  // Names in the inbox, in the order in which they are to be read. A message that had to wait may arrive under an older
  // name.
  Result<std::vector<std::string>> list_inbox();
  Result<RelayMail> read(const std::string& file);
  // Until there is a message whose name sorts after `after`. False: timeout or signal.
  Result<bool> wait_for_mail(std::chrono::milliseconds timeout, std::string_view after = {});
  // Saves an attachment in a directory, and returns the file's name there. Overwrites nothing. Within the hour after
  // the message was taken.
  Result<std::string> save(const RelayAttachment& attachment, const std::string& dir);

  // These take the message out of the inbox.
  Status take(const std::string& file);  // it counts as read; kNotFound: it is not there
  // By the name in the inbox, or by the id: the sender learns whether it was processed. kNotFound: the message is
  // neither in the inbox nor among those that were taken, and nothing is sent. The first answer counts: the relay
  // refuses another.
  Status acknowledge(std::string_view reference);
  Status refuse(std::string_view reference, std::string_view why);

  // From the relay's ledger: kDenied where that cannot be seen, as for another user; kNotFound before the relay has
  // taken the message. Empty for one that was refused or is for the relay itself.
  Result<std::vector<RelayDelivery>> deliveries(const std::string& id);

 private:
  struct State;
  explicit RelayClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace warren::v1
