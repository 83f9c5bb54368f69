#include "sandbox/run_mark.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "os/error.h"

namespace warren {
namespace {

// A process that forks and exits in turns can be missed once, when pids begin again at the lowest number. It would
// have to use up all of them between two rounds to be missed twice.
constexpr int kEmptyRounds = 2;
constexpr int kQuickRounds = 200;
constexpr int kQuickMs = 2;
constexpr int kSlowMs = 250;  // for what does not die: a process in an uninterruptible call

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// nullopt if the process or thread has none to show.
std::optional<bool> find_mark(const std::string& process, const struct stat& wanted) {
  struct stat own {};
  if (::stat((process + "/ns/uts").c_str(), &own) != 0) return std::nullopt;
  return own.st_ino == wanted.st_ino && own.st_dev == wanted.st_dev;
}

// When the first thread of a process has ended, only the others show the namespace. All are in the same one.
bool has_mark(pid_t pid, const struct stat& wanted) {
  std::string process = fmt::format("/proc/{}", pid);
  if (std::optional<bool> is_marked = find_mark(process, wanted)) return *is_marked;
  std::unique_ptr<DIR, CloseDir> threads(::opendir((process + "/task").c_str()));
  if (threads == nullptr) return false;
  while (const dirent* entry = ::readdir(threads.get())) {
    if (!parse_number<pid_t>(entry->d_name)) continue;
    if (std::optional<bool> is_marked = find_mark(process + "/task/" + entry->d_name, wanted)) return *is_marked;
  }
  return false;
}

}  // namespace

Result<Fd> mark_this_process() {
  if (::unshare(CLONE_NEWUTS) != 0) return system_error(errno, "create a namespace for the run");
  Fd mark(::open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC));
  if (!mark.is_open()) return system_error(errno, "open '/proc/self/ns/uts'");
  return mark;
}

std::size_t kill_marked(int mark) {
  struct stat wanted {};
  std::unique_ptr<DIR, CloseDir> all(::opendir("/proc"));
  if (all == nullptr || ::fstat(mark, &wanted) != 0) return 0;
  std::size_t found = 0;
  while (const dirent* entry = ::readdir(all.get())) {  // in the order of pids: children come after their parents
    std::optional<pid_t> pid = parse_number<pid_t>(entry->d_name);
    if (!pid || !has_mark(*pid, wanted)) continue;
    ++found;
    ::kill(*pid, SIGKILL);
  }
  return found;
}

void RunEnder::add(Fd mark, Fd done) { endings_.push_back({.mark = std::move(mark), .done = std::move(done)}); }

int RunEnder::patience_ms() const {
  if (endings_.empty()) return -1;
  bool is_quick =
      std::any_of(endings_.begin(), endings_.end(), [](const Ending& one) { return one.rounds < kQuickRounds; });
  return is_quick ? kQuickMs : kSlowMs;
}

void RunEnder::work() {
  for (Ending& one : endings_) {
    ++one.rounds;
    one.empty_rounds = kill_marked(one.mark.get()) == 0 ? one.empty_rounds + 1 : 0;
  }
  std::erase_if(endings_, [](const Ending& one) { return one.empty_rounds >= kEmptyRounds; });
}

}  // namespace warren
