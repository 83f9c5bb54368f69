// Unix sockets: listening at a path, connecting to one, and who is on the other side.
#pragma once

#include <string>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Replaces a socket that a program has left there; kBusy if one uses it. Two callers at the same path exclude each
// other by other means. kExists for any other file, kNameTooLong beyond 107 bytes.
Result<Fd> listen_unix(const std::string& path, mode_t mode, int backlog);
// kNotFound, or kUnavailable if nobody listens there.
Result<Fd> connect_unix(const std::string& path);

struct PeerProcess {
  pid_t pid = 0;
  uid_t uid = 0;
};
Result<PeerProcess> peer_process(int socket);  // as it was when it connected, or began to listen

}  // namespace warren
