#include "os/processes/process.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"

namespace warren {
namespace {

// As in Linux 6.15's <linux/pidfd.h>, which is newer than the headers we build with.
struct PidfdInfo {
  __u64 mask = 0;
  __u64 cgroup = 0;
  __u32 ids[11] = {};
  __s32 wait_status = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);
constexpr __u64 kWaitStatus = 1U << 3;

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::int64_t own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? static_cast<std::int64_t>(info.st_ino) : 0;
}

struct ProcStat {
  bool has_ended = false;    // a zombie: its parent has not waited for it yet
  std::int64_t started = 0;  // field 22
  int wait_status = 0;       // field 52
};

// Reads /proc/PID/stat. The second field is the program's name in parentheses and may contain anything, so the fields
// are counted from the last ')'.
std::optional<ProcStat> read_stat(std::int64_t pid) {
  std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  std::size_t close = text.rfind(')');
  if (close == text.npos) return std::nullopt;
  std::istringstream in(text.substr(close + 1));
  std::vector<std::string> fields{std::istream_iterator<std::string>(in), {}};  // starting with the third
  if (fields.size() < 50) return std::nullopt;
  std::optional<std::int64_t> started = parse_number<std::int64_t>(fields[22 - 3]);
  std::optional<int> wait_status = parse_number<int>(fields[52 - 3]);
  if (!started || !wait_status) return std::nullopt;
  return ProcStat{.has_ended = fields[0] == "Z" || fields[0] == "X", .started = *started, .wait_status = *wait_status};
}

std::optional<std::int64_t> start_time(std::int64_t pid) {
  std::optional<ProcStat> stat = read_stat(pid);
  if (!stat || stat->has_ended) return std::nullopt;
  return stat->started;
}

}  // namespace

// The kernel shows the bytes between these two addresses of our own memory: fields 48 and 49.
void hide_arguments(std::string_view title) {
  std::string text = read_text("/proc/self/stat");
  std::size_t close = text.rfind(')');
  if (close == text.npos) return;
  std::istringstream in(text.substr(close + 1));
  std::vector<std::string> fields{std::istream_iterator<std::string>(in), {}};  // starting with the third
  if (fields.size() < 50) return;
  auto begin = parse_number<std::uintptr_t>(fields[48 - 3]);
  auto end = parse_number<std::uintptr_t>(fields[49 - 3]);
  if (!begin || !end || *begin == 0 || *end <= *begin) return;
  auto* memory = reinterpret_cast<char*>(*begin);  // NOLINT(performance-no-int-to-ptr): that is how the kernel names it
  std::size_t size = *end - *begin;
  std::memset(memory, 0, size);
  title.copy(memory, size - 1);
}

ProcessIdentity current_process() {
  std::int64_t pid = ::getpid();
  return {.boot = read_text("/proc/sys/kernel/random/boot_id"),
          .pid_namespace = own_pid_namespace(),
          .pid = pid,
          .started = start_time(pid).value_or(0)};
}

std::optional<ProcessIdentity> find_process(std::int64_t pid) {
  std::optional<std::int64_t> started = start_time(pid);
  if (!started) return std::nullopt;
  ProcessIdentity process = current_process();
  process.pid = pid;
  process.started = *started;
  return process;
}

Liveness liveness_of(const ProcessIdentity& process) {
  ProcessIdentity self = current_process();
  if (process.boot != self.boot) return Liveness::kDead;
  if (process.pid_namespace != self.pid_namespace) return Liveness::kUnknown;
  return start_time(process.pid) == process.started ? Liveness::kAlive : Liveness::kDead;
}

std::optional<int> find_wait_status(const ProcessIdentity& process, int pidfd) {
  std::optional<ProcStat> stat = read_stat(process.pid);
  if (stat && stat->has_ended && stat->started == process.started) {
    // The kernel reports 0 to those who may not know it; it also denies them this file.
    bool may_know = stat->wait_status != 0 || !read_text("/proc/" + std::to_string(process.pid) + "/io").empty();
    return may_know ? std::optional(stat->wait_status) : std::nullopt;
  }
  PidfdInfo info{.mask = kWaitStatus};
  if (::ioctl(pidfd, kGetInfo, &info) != 0 || (info.mask & kWaitStatus) == 0) return std::nullopt;
  return info.wait_status;
}

}  // namespace warren
