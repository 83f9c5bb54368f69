#include "os/files/dir_watch.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/inotify.h>
#include <unistd.h>

#include <fmt/format.h>

#include "os/error.h"

namespace warren {
namespace {

constexpr std::uint32_t kNames = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
constexpr std::uint32_t kNodes = IN_MODIFY | IN_ATTRIB;

}  // namespace

Result<DirWatch> DirWatch::open() {
  Fd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.is_open()) return system_error(errno, "watch directories");
  return DirWatch(std::move(inotify));
}

std::optional<int> DirWatch::add(int dir) {
  std::string path = fmt::format("/proc/self/fd/{}/.", dir);
  int id = ::inotify_add_watch(inotify_.get(), path.c_str(), kNames | kNodes | IN_ONLYDIR | IN_EXCL_UNLINK);
  if (id < 0) return std::nullopt;
  return id;
}

void DirWatch::remove(int id) { ::inotify_rm_watch(inotify_.get(), id); }

std::vector<DirWatch::Event> DirWatch::take() {
  std::vector<Event> events;
  alignas(inotify_event) std::array<char, 65'536> buffer;
  for (;;) {
    ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return events;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event raw{};
      std::memcpy(&raw, buffer.data() + at, sizeof raw);
      std::size_t name_at = at + sizeof raw;
      at = name_at + raw.len;
      Event event{.id = raw.wd,
                  .name = raw.len > 0 ? std::string(buffer.data() + name_at) : std::string(),
                  .is_name = (raw.mask & kNames) != 0,
                  .is_over = (raw.mask & IN_IGNORED) != 0,
                  .is_lost = (raw.mask & IN_Q_OVERFLOW) != 0};
      bool is_repeat = !events.empty() && events.back().id == event.id && events.back().name == event.name &&
                       events.back().is_name == event.is_name && !event.is_over && !event.is_lost;
      if (!is_repeat) events.push_back(std::move(event));
    }
  }
}

}  // namespace warren
