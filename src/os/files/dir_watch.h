// Notification of changes in directories of the host, by inotify.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// One thread calls take(); others may call add() at the same time.
class DirWatch {
 public:
  static Result<DirWatch> open();

  int fd() const { return inotify_.get(); }  // readable when something happened

  // Watches the directory of a descriptor (O_PATH is enough) and returns its id, the same one if it is already watched;
  // nullopt when the system is out of watches.
  std::optional<int> add(int dir);

  void remove(int id);  // what happened before may still be reported

  struct Event {
    int id = -1;
    std::string name;      // in the directory; "" for the directory itself
    bool is_name = false;  // the name was added, removed or replaced
    bool is_over = false;  // the directory is gone: no more events for this id
    bool is_lost = false;  // events were dropped: anything may have changed
  };
  std::vector<Event> take();  // does not wait

 private:
  explicit DirWatch(Fd inotify) : inotify_(std::move(inotify)) {}
  Fd inotify_;
};

}  // namespace warren
