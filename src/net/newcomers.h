// The connections of a server, and which of them have not shown yet that they may be there.
//
// When there are too many, the oldest newcomer is shut down for the next one, so that connections that send no valid
// request cannot keep others out.
#pragma once

#include <cstddef>
#include <list>
#include <optional>

namespace warren::net {

// For one thread.
class Newcomers {
 public:
  explicit Newcomers(std::size_t connections_max) : connections_max_(connections_max) {}

  struct Connection {
    int fd = -1;
    bool is_shut_down = false;
    std::optional<std::list<Connection*>::iterator> place;  // among the newcomers
  };

  // The caller keeps it at its address, and calls ended() before it closes the descriptor.
  void began(Connection& connection);
  bool accept(Connection& connection);  // a request of it was accepted; false: it was not the first one
  void ended(Connection& connection);

 private:
  void make_room();

  std::size_t connections_max_;
  std::size_t count_ = 0;             // without those that were shut down
  std::list<Connection*> newcomers_;  // the oldest first
};

}  // namespace warren::net
