// What an agent does with a relay, as a library: write a message by the file protocol, read an inbox.
//
// Nothing here needs the relay to be up, nor the ledger: messages wait in the outbox.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "relay/message.h"
#include "relay/root.h"

namespace warren::relay {

struct Received {
  std::string file;    // its name in the inbox
  std::string sender;  // FROM
  std::string id;      // ID
  Message message;
};

// One thread. The root must outlive it.
class Client {
 public:
  // Makes the agent's directories when they are missing, which registers it.
  static Result<std::unique_ptr<Client>> open(Root& root, std::string_view agent, Clock& clock);

  const std::string& agent() const { return agent_; }
  // What a relay gave to an agent it started: goes along with what is sent, and no further than the relay.
  void use_token(std::string token) { token_ = std::move(token); }

  // Returns the message's id (agent/stem) once the message is durable in the outbox.
  Result<std::string> send(const Message& message);

  Result<std::vector<std::string>> list_inbox();  // names, in the order to read them
  Result<Received> read(const std::string& file);
  Status take(const std::string& file);  // moved to inbox/.done: the sender sees it as read

  Status acknowledge(std::string_view reference);
  Status refuse(std::string_view reference, std::string_view why);

 private:
  Client(Root& root, std::string agent, Clock& clock) : root_(root), agent_(std::move(agent)), clock_(clock) {}

  Root& root_;
  std::string agent_;
  std::string token_;
  Clock& clock_;
  Fd outbox_;
  Fd pending_;
  Fd inbox_;
  std::int64_t newest_ns_ = 0;
};

}  // namespace warren::relay
