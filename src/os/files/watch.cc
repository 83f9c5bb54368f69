#include "os/files/watch.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/inotify.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren {

Result<FileWatch> FileWatch::open(const std::string& path) {
  Fd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.is_open()) return system_error(errno, "watch files");
  if (::inotify_add_watch(inotify.get(), path.c_str(), IN_MODIFY | IN_ATTRIB) < 0) {
    return system_error(errno, fmt::format("watch {}", quote(path)));
  }
  return FileWatch(std::move(inotify));
}

Status FileWatch::add_touches_of(const std::string& path, Writes writes) {
  std::uint32_t modify = writes == Writes::kNoticed ? IN_MODIFY : 0;
  int added = ::inotify_add_watch(inotify_.get(), path.c_str(), IN_ATTRIB | IN_MOVE_SELF | modify);
  if (added < 0) return system_error(errno, fmt::format("watch {}", quote(path)));
  other_ = added;
  return Ok{};
}

FileWatch::Happened FileWatch::take() {
  Happened happened;
  alignas(inotify_event) std::array<char, 4096> events;
  for (;;) {
    ssize_t got = ::read(inotify_.get(), events.data(), events.size());
    if (got <= 0) return happened;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, events.data() + at, sizeof event);
      bool is_other = other_ >= 0 && event.wd == other_;
      if ((event.mask & IN_MODIFY) != 0 && is_other) happened.other_written = true;
      else if ((event.mask & (IN_MODIFY | IN_Q_OVERFLOW)) != 0) happened.written = true;
      if ((event.mask & (IN_ATTRIB | IN_MOVE_SELF | IN_Q_OVERFLOW)) != 0) happened.touched = true;
      at += sizeof event + event.len;
    }
  }
}

}  // namespace warren
