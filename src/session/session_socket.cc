#include "session/session_socket.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

Result<sockaddr_un> socket_address_of(const SessionDir& session) {
  std::string path = session.socket_path();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error(Code::kNameTooLong, "the path of the session's socket is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> open_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return system_error(errno, "open a socket");
  return socket;
}

}  // namespace

Result<Fd> listen_for_commands(const SessionDir& session) {
  sockaddr_un address = WARREN_TRY(socket_address_of(session));
  Fd listener = WARREN_TRY(open_socket());
  ::unlink(address.sun_path);  // left by a killed server; our lock guarantees that there is no other
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  bool is_bound = ::bind(listener.get(), generic, sizeof address) == 0 && ::listen(listener.get(), 64) == 0;
  if (!is_bound) return system_error(errno, "listen for commands");
  return listener;
}

void remove_session_socket(const SessionDir& session) {
  Result<sockaddr_un> address = socket_address_of(session);
  if (address.ok()) ::unlink(address->sun_path);
}

Result<std::optional<Fd>> connect_to_server(const SessionDir& session) {
  sockaddr_un address = WARREN_TRY(socket_address_of(session));
  Fd socket = WARREN_TRY(open_socket());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    bool is_unserved = errno == ENOENT || errno == ECONNREFUSED;
    if (is_unserved) return std::optional<Fd>();
    return system_error(errno, fmt::format("join session {}", quote(session.id())));
  }
  if (!is_trusted_peer(socket.get())) {
    return Error(Code::kNotPermitted,
                 fmt::format("session {} is served by another user's process", quote(session.id())));
  }
  return std::optional(std::move(socket));
}

bool is_trusted_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

}  // namespace warren
