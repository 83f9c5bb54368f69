// An agent's side of the relay: sends messages by the file protocol and reads the inbox.
//
// Needs neither a running relay nor the ledger: messages wait in the outbox.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
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
  std::string file;    // the name in the inbox
  std::string sender;  // FROM
  std::string id;      // ID
  Message message;
};

// For one thread. The root must outlive it.
class Client {
 public:
  // Creates the agent's directories if they are missing, which registers the agent. kDenied: it is another user's.
  static Result<std::unique_ptr<Client>> open(Root& root, std::string_view agent, Clock& clock);

  const std::string& agent() const { return agent_; }
  // The token that the relay gave to an agent it started. Sent with every message; the relay does not pass it on.
  void use_token(std::string token) { token_ = std::move(token); }

  // Returns the message's id (agent/stem) once the message is durable in the outbox.
  Result<std::string> send(const Message& message);

  Result<std::vector<std::string>> list_inbox();  // file names, in reading order
  Result<Received> read(const std::string& file);
  Status take(const std::string& file);  // moves it to inbox/.done, so the delivery counts as read

  // True: there is a message whose name sorts after `after`; false: timeout or signal.
  Result<bool> wait_for_mail(std::chrono::milliseconds timeout, std::string_view after = {});

  // Attachments: client_attachments.cc. Stores the content of `file` durably. A message with a header for it
  // (write_attachment) must be sent within the hour.
  Result<Attachment> attach(int file);
  Result<Attachment> attach_path(const std::string& path);  // with the file's name, but without its directory
  // Writes the content to `out`. kCorrupt: the written content is wrong; kNotFound: it no longer exists.
  Status fetch(const Attachment& attachment, int out);
  // Saves it in a directory, durably, and returns the file's name: the sender's or else the hash, with a number
  // appended if another file has that name. An existing file with the same content is used as it is.
  Result<std::string> save(const Attachment& attachment, int dir);

  // The name of a received message's file, given that name (with or without `.msg`) or the message's id. kNotFound: it
  // is neither in the inbox nor in inbox/.done.
  Result<std::string> find_received(std::string_view reference);
  // These take a reference as above, and take the message if it is still in the inbox. kNotFound: it was not received,
  // and nothing is sent. The relay refuses a second answer that differs from the first.
  Status acknowledge(std::string_view reference);
  Status refuse(std::string_view reference, std::string_view why);

 private:
  Client(Root& root, std::string agent, Clock& clock) : root_(root), agent_(std::move(agent)), clock_(clock) {}
  Status open_dirs();
  Status answer(std::string_view reference, Message message);

  Root& root_;
  std::string agent_;
  std::string token_;
  Clock& clock_;
  Fd outbox_;
  Fd pending_;
  Fd inbox_;
  std::optional<Owner> owner_;  // the agent's user, if we are root and the agent is not
  Fd mail_;                     // inotify on the inbox; opened by wait_for_mail()
  std::int64_t newest_ns_ = 0;
};

}  // namespace warren::relay
