// Messages with descriptors over a Unix socket that preserves message boundaries (SOCK_SEQPACKET).
//
// A message is a list of fields of any bytes except NUL, which paths and command-line words do not contain. The first
// field is the verb. receive_message returns the verb "error" as an Error.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

struct Message {
  std::vector<std::string> fields;
  std::vector<Fd> fds;

  const std::string& verb() const { return fields.front(); }
};

// Both ends are closed on exec.
Result<std::pair<Fd, Fd>> open_message_pair();

// kUnavailable if the other end is closed; kTooLarge beyond 128 KiB.
Status send_message(int socket, std::span<const std::string> fields, std::span<const int> fds = {});
Status send_error(int socket, const Error& error);

// Waits for a message. kUnavailable at the end of the connection; otherwise the error that the other side sent.
Result<Message> receive_message(int socket);

}  // namespace warren
