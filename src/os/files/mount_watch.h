// Where something was mounted or unmounted: inotify does not report that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// For one thread.
class MountWatch {
 public:
  static Result<MountWatch> open();

  // The mount points at which something has changed since the last call. Does not wait, and costs one system call while
  // nothing is mounted anywhere.
  Result<std::set<std::string>> take();

 private:
  struct Mounted {
    std::uint64_t id = 0;
    std::uint64_t device = 0;
    std::string root;
    bool operator==(const Mounted&) const = default;
  };
  using Table = std::map<std::string, std::vector<Mounted>>;  // by directory: one may be mounted over another

  explicit MountWatch(Fd table) : table_(std::move(table)) {}
  static Result<Table> read();

  Fd table_;
  Table known_;
};

}  // namespace warren
