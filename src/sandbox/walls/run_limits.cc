#include "sandbox/walls/run_limits.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/format_size.h"
#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"
#include "os/files/mount_table.h"

namespace warren {
namespace {

constexpr std::uint64_t kReservedPids = 300;   // never given out again once the numbers have wrapped around
constexpr std::uint64_t kCpuGraceSeconds = 5;  // between SIGXCPU and SIGKILL
constexpr std::uint64_t kPidMax = 4'194'304;
constexpr const char* kCgroupPrefix = "warren-run-";

Status write_setting(const std::string& path, const std::string& text) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  return write_all(file.get(), as_bytes(text)).within(path);
}

Status set_rlimit(__rlimit_resource resource, std::uint64_t soft, std::uint64_t hard, const char* name) {
  rlimit current{};
  if (::getrlimit(resource, &current) != 0) return system_error(errno, name);
  rlimit wanted{std::min<rlim_t>(soft, current.rlim_max), std::min<rlim_t>(hard, current.rlim_max)};
  if (::setrlimit(resource, &wanted) != 0) return system_error(errno, fmt::format("limit {}", name));
  return Ok{};
}

std::string number_text(const std::optional<std::uint64_t>& number) { return number ? std::to_string(*number) : "-"; }

bool has_word(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    std::size_t end = std::min(text.find_first_of(kWhitespace), text.size());
    if (text.substr(0, end) == word) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

// The directory beside our own cgroup's, if it passes on the controllers that we need.
std::optional<std::string> find_cgroup_parent() {
  Result<std::string> own = read_host_file("/proc/self/cgroup", 65'536);
  if (!own.ok()) return std::nullopt;
  std::optional<std::string> path = parse_own_cgroup(*own);
  Result<std::vector<MountEntry>> mounts = read_mount_table();
  if (!path || *path == "/" || !mounts.ok()) return std::nullopt;
  for (const MountEntry& mount : *mounts) {
    if (mount.type != "cgroup2") continue;
    std::string parent = mount.dir + std::string(split_parent(*path).parent);
    Result<std::string> controllers = read_host_file(parent + "/cgroup.subtree_control", 4096);
    bool is_enough = controllers.ok() && has_word(*controllers, "memory") && has_word(*controllers, "pids");
    if (is_enough && ::access(parent.c_str(), W_OK) == 0) return parent;
  }
  return std::nullopt;
}

// The name ends with the server's pid. One that is just starting has no process in its cgroup yet.
bool is_of_running_server(std::string_view name) {
  std::optional<pid_t> pid = parse_number<pid_t>(name.substr(name.rfind('-') + 1));
  return pid && (::kill(*pid, 0) == 0 || errno == EPERM);
}

// Those of servers that were killed are empty; a cgroup with processes cannot be removed.
void remove_empty_cgroups(const std::string& parent) {
  Result<Fd> dir = open_host_dir(parent);
  if (!dir.ok()) return;
  Result<std::vector<HostEntry>> entries = list_host_dir(dir->get());
  if (!entries.ok()) return;
  for (const HostEntry& entry : *entries) {
    if (entry.name.starts_with(kCgroupPrefix) && !is_of_running_server(entry.name))
      ::rmdir(join_path(parent, entry.name).c_str());
  }
}

}  // namespace

std::vector<std::string> LimitsInForce::fields() const {
  return {number_text(limits.memory_bytes),
          number_text(limits.processes),
          number_text(limits.cpu_seconds),
          number_text(limits.disk_bytes),
          counts_in_namespace ? "namespace" : "process",
          cgroup};
}

LimitsInForce LimitsInForce::from_fields(const std::string* fields) {
  LimitsInForce limits;
  limits.limits.memory_bytes = parse_number<std::uint64_t>(fields[0]);
  limits.limits.processes = parse_number<std::uint64_t>(fields[1]);
  limits.limits.cpu_seconds = parse_number<std::uint64_t>(fields[2]);
  limits.limits.disk_bytes = parse_number<std::uint64_t>(fields[3]);
  limits.counts_in_namespace = fields[4] == "namespace";
  limits.cgroup = fields[5];
  return limits;
}

std::vector<std::string> LimitsInForce::lines() const {
  std::vector<std::string> all;
  bool is_whole = !cgroup.empty();
  if (limits.memory_bytes) {
    all.push_back(fmt::format("memory: {} {}", format_size(*limits.memory_bytes),
                              is_whole ? "for the whole run (cgroup)" : "for each process (rlimit)"));
  } else {
    all.emplace_back("memory: not limited");
  }
  if (limits.processes) {
    all.push_back(fmt::format("processes: {} {}", *limits.processes,
                              is_whole              ? "for the whole run (cgroup)"
                              : counts_in_namespace ? "for the whole run (pid namespace)"
                                                    : "of this user in the run (rlimit; root is exempt)"));
  }
  if (limits.cpu_seconds) all.push_back(fmt::format("cpu time: {} s for each process (rlimit)", *limits.cpu_seconds));
  if (limits.disk_bytes) {
    all.push_back(
        fmt::format("disk: {} for the session's files, for each of /tmp and the like, and for each other file",
                    format_size(*limits.disk_bytes)));
  }
  return all;
}

bool has_own_pid_max() {
  utsname system{};
  int major = 0;
  int minor = 0;
  bool is_known = ::uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2;
  return is_known && (major > 6 || (major == 6 && minor >= 14));
}

Status limit_namespace(std::uint64_t processes) {
  return write_setting("/proc/sys/kernel/pid_max", std::to_string(std::min(processes + kReservedPids, kPidMax)));
}

// Timers and queued signals count for the user, whoever has them; a quarter stays for programs outside.
Status leave_some_timers() {
  rlimit now{};
  if (::getrlimit(RLIMIT_SIGPENDING, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return Ok{};
  rlim_t kept = now.rlim_cur - now.rlim_cur / 4;
  return set_rlimit(RLIMIT_SIGPENDING, kept, kept, "timers and queued signals");
}

Status limit_process(const LimitsInForce& in_force) {
  WARREN_TRY(leave_some_timers());
  const RunLimits& limits = in_force.limits;
  if (limits.memory_bytes && in_force.cgroup.empty()) {
    // Not RLIMIT_AS: many programs reserve addresses that they never use.
    WARREN_TRY(set_rlimit(RLIMIT_DATA, *limits.memory_bytes, *limits.memory_bytes, "memory"));
  }
  if (limits.processes) WARREN_TRY(set_rlimit(RLIMIT_NPROC, *limits.processes, *limits.processes, "processes"));
  if (limits.cpu_seconds) {
    WARREN_TRY(set_rlimit(RLIMIT_CPU, *limits.cpu_seconds, *limits.cpu_seconds + kCpuGraceSeconds, "cpu time"));
  }
  if (limits.disk_bytes) WARREN_TRY(set_rlimit(RLIMIT_FSIZE, *limits.disk_bytes, *limits.disk_bytes, "disk"));
  return Ok{};
}

std::optional<std::string> parse_own_cgroup(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("0::/")) return std::string(line.substr(3));
  }
  return std::nullopt;
}

std::unique_ptr<RunCgroup> RunCgroup::make(const RunLimits& limits, const std::string& name) {
  std::optional<std::string> parent = find_cgroup_parent();
  if (!parent) return nullptr;
  remove_empty_cgroups(*parent);
  std::string path = join_path(*parent, kCgroupPrefix + name);
  if (::mkdir(path.c_str(), 0755) != 0) return nullptr;
  std::unique_ptr<RunCgroup> cgroup(new RunCgroup(std::move(path)));
  auto set = [&](const char* file, const std::optional<std::uint64_t>& limit) {
    return !limit || write_setting(join_path(cgroup->path_, file), std::to_string(*limit)).ok();
  };
  bool is_set = set("memory.max", limits.memory_bytes) && set("pids.max", limits.processes);
  return is_set ? std::move(cgroup) : nullptr;
}

RunCgroup::~RunCgroup() { ::rmdir(path_.c_str()); }

Status RunCgroup::add(pid_t pid) const { return write_setting(join_path(path_, "cgroup.procs"), std::to_string(pid)); }

Status enter_cgroup(const std::string& dir) { return write_setting(join_path(dir, "cgroup.procs"), "0"); }

}  // namespace warren
