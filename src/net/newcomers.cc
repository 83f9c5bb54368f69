#include "net/newcomers.h"

#include <sys/socket.h>

namespace warren::net {

void Newcomers::began(Connection& connection) {
  if (++count_ > connections_max_) make_room();
  connection.place = newcomers_.insert(newcomers_.end(), &connection);
}

// Whoever serves the connection sees its end, and closes it.
void Newcomers::make_room() {
  if (newcomers_.empty()) return;
  Connection& oldest = *newcomers_.front();
  newcomers_.pop_front();
  oldest.place.reset();
  oldest.is_shut_down = true;
  --count_;
  ::shutdown(oldest.fd, SHUT_RDWR);
}

bool Newcomers::accept(Connection& connection) {
  if (!connection.place) return false;
  newcomers_.erase(*connection.place);
  connection.place.reset();
  return true;
}

void Newcomers::ended(Connection& connection) {
  accept(connection);
  if (!connection.is_shut_down) --count_;
}

}  // namespace warren::net
