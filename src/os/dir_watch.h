// Hearing of changes in directories of the host: inotify.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// One thread takes; others may add meanwhile.
class DirWatch {
 public:
  static Result<DirWatch> open();

  int fd() const { return inotify_.get(); }  // readable when something happened

  // Watches the directory behind a descriptor (O_PATH is enough). Its id, the same if it is watched already;
  // nullopt when the system gives no more watches.
  std::optional<int> add(int dir);

  struct Event {
    int id = -1;
    std::string name;      // in the directory; "" for the directory itself
    bool is_name = false;  // the name means something else now, or nothing
    bool is_over = false;  // the directory is gone: nothing more comes for this id
    bool is_lost = false;  // events were dropped: anything may have changed
  };
  std::vector<Event> take();  // does not wait

 private:
  explicit DirWatch(Fd inotify) : inotify_(std::move(inotify)) {}
  Fd inotify_;
};

}  // namespace warren
