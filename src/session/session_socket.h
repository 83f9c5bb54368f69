// The socket on which a session's server waits for commands: how both ends open it, and whom they trust.
#pragma once

#include <optional>

#include "agent/sessions.h"
#include "base/result.h"
#include "os/fd.h"

namespace warren {

// For the server, which must hold the session's lock.
Result<Fd> listen_for_commands(const SessionDir& session);
void remove_session_socket(const SessionDir& session);

// For a command. nullopt when no server listens; kNotPermitted if it is another user's.
Result<std::optional<Fd>> connect_to_server(const SessionDir& session);

// Only the same user and root may join a session, and only their server may hand us namespaces to enter.
bool is_trusted_peer(int socket);

}  // namespace warren
