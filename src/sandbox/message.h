// One message, with descriptors, over a Unix socket that keeps messages apart (SOCK_SEQPACKET).
//
// A message is a list of fields, each any bytes but NUL: paths and words of a command line have none. The
// first field is the verb. "error" carries an Error and comes out of receive_message as one.
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

// Both ends closed on exec.
Result<std::pair<Fd, Fd>> open_message_pair();

// kUnavailable if nobody is at the other end; kTooLarge beyond 128 KiB.
Status send_message(int socket, std::span<const std::string> fields, std::span<const int> fds = {});
Status send_error(int socket, const Error& error);

// Waits for one. kUnavailable at the end of the connection; else the error that the other side sent.
Result<Message> receive_message(int socket);

}  // namespace warren
