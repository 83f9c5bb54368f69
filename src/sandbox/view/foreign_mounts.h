// Mounts that the host makes or removes while a sandbox is up.
//
// The inside follows the host's mounts (slave propagation), so that what is unmounted outside is not kept alive inside.
// The price is that new mounts of the host appear inside as they are, writable: they are removed at once.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// For the sandbox's first process, once everything inside is mounted.
class ForeignMounts {
 public:
  static Result<ForeignMounts> watch();

  int fd() const { return table_.get(); }  // poll it for POLLPRI: something was mounted or unmounted

  // Call then. Removes what came from outside; what we mount ourselves is never on a mount of the host's.
  void remove_new();

 private:
  explicit ForeignMounts(Fd table) : table_(std::move(table)) {}

  Fd table_;
  std::set<std::uint64_t> known_;  // mount ids
};

}  // namespace warren
