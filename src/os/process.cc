#include "os/process.h"

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

namespace warren {
namespace {

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

// Field 22 of /proc/PID/stat. The second field is the program's name in parentheses and may hold
// anything, so counting starts behind the last ')'.
std::optional<std::int64_t> start_time(std::int64_t pid) {
  std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  std::size_t close = text.rfind(')');
  if (close == text.npos) return std::nullopt;
  std::istringstream fields(text.substr(close + 1));
  std::string field;
  for (int i = 3; i <= 22 && (fields >> field); ++i) {
    bool has_ended = i == 3 && (field == "Z" || field == "X");  // only its parent has not asked yet
    if (has_ended) return std::nullopt;
  }
  if (!fields) return std::nullopt;
  return std::stoll(field);
}

}  // namespace

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

}  // namespace warren
