#include "os/unix_socket.h"

#include <cerrno>
#include <cstring>
#include <optional>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.find('\0') != path.npos) {
    return Error(Code::kInvalid, fmt::format("{} is not a path for a socket", quote(path)));
  }
  if (path.size() >= sizeof address.sun_path) {
    return Error(Code::kNameTooLong, fmt::format("the path of the socket {} has more than {} bytes", quote(path),
                                                 sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<Fd> unix_socket(int flags = 0) {
  Fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!made.is_open()) return system_error(errno, "make a socket");
  return made;
}

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

// Whether a program has this socket, rather than only having left it. Does not wait: a full queue is an answer.
Result<bool> is_in_use(const sockaddr_un& address) {
  Fd socket = WARREN_TRY(unix_socket(SOCK_NONBLOCK));
  if (::connect(socket.get(), generic(address), sizeof address) == 0) return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

}  // namespace

Result<Fd> listen_unix(const std::string& path, mode_t mode, int backlog) {
  sockaddr_un address = WARREN_TRY(unix_address(path));
  std::optional<struct stat> there = WARREN_TRY(find_host_link(path));
  if (there && !S_ISSOCK(there->st_mode)) {
    return Error(Code::kExists, fmt::format("{} exists and is not a socket", quote(path)));
  }
  if (there && WARREN_TRY(is_in_use(address))) {
    return Error(Code::kBusy, fmt::format("another program uses the socket {}", quote(path)));
  }
  if (there && ::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return system_error(errno, fmt::format("remove the old socket {}", quote(path)));
  }
  Fd socket = WARREN_TRY(unix_socket());
  // Nobody connects before listen(), so the mode that bind() gives it does not matter.
  if (::bind(socket.get(), generic(address), sizeof address) != 0 || ::chmod(path.c_str(), mode) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    return system_error(errno, fmt::format("listen on {}", quote(path)));
  }
  return socket;
}

Result<Fd> connect_unix(const std::string& path) {
  sockaddr_un address = WARREN_TRY(unix_address(path));
  Fd socket = WARREN_TRY(unix_socket());
  if (::connect(socket.get(), generic(address), sizeof address) == 0) return socket;
  if (errno == ECONNREFUSED) return Error(Code::kUnavailable, fmt::format("nobody listens on {}", quote(path)));
  return system_error(errno, fmt::format("connect to {}", quote(path)));
}

Result<PeerProcess> peer_process(int socket) {
  ucred found{};
  socklen_t size = sizeof found;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0) {
    return system_error(errno, "look who is on the other side of a socket");
  }
  return PeerProcess{.pid = found.pid, .uid = found.uid};
}

}  // namespace warren
