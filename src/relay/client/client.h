// What an agent does with a relay, as a library: write a message by the file protocol, read an inbox.
//
// Nothing here needs the relay to be up, nor the ledger: messages wait in the outbox.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "relay/protocol/attachment.h"
#include "relay/protocol/message.h"
#include "relay/root/root.h"

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

  // Returns true once there is a message named after `after`, or false when the time is over or a signal came.
  Result<bool> wait_for_mail(std::chrono::milliseconds timeout, std::string_view after = {});

  // Attachments: client_attachments.cc. Stores what can be read from `file` durably, to be referred to by a header
  // (write_attachment) of a message that is sent within the hour.
  Result<Attachment> attach(int file);
  Result<Attachment> attach_path(const std::string& path);  // also with the name of the file, but no directory
  // Writes the content to `out`. kCorrupt: what was written is worth nothing; kNotFound: it is gone.
  Status fetch(const Attachment& attachment, int out);
  // Puts it into a directory, durably, and returns its name there: the sender's, or the hash; with a number behind it
  // if another file has that. A file of that content that is there already does.
  Result<std::string> save(const Attachment& attachment, int dir);

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
  Fd mail_;  // inotify on the inbox, once somebody waits
  std::int64_t newest_ns_ = 0;
};

}  // namespace warren::relay
