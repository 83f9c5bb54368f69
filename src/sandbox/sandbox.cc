#include "sandbox/sandbox.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "os/error.h"
#include "os/files/host_files.h"
#include "os/processes/process.h"
#include "sandbox/message.h"
#include "sandbox/run_mark.h"
#include "sandbox/view/interior.h"
#include "sandbox/view/network_view.h"
#include "sandbox/walls/run_limits.h"

namespace warren {
namespace {

constexpr int kEndWaitMs = 5000;
constexpr const char* kEndRun = "end-run";

std::array<std::string, 1> word(std::string verb) { return {std::move(verb)}; }

std::string setting(const char* path) {
  std::string value;
  std::ifstream(path) >> value;
  return value;
}

// Why the system may not allow this user to create namespaces, and how to change that.
std::string namespace_hint() {
  if (setting("/proc/sys/kernel/unprivileged_userns_clone") == "0") {
    return "user namespaces are off: `sysctl -w kernel.unprivileged_userns_clone=1` as root";
  }
  if (setting("/proc/sys/user/max_user_namespaces") == "0") {
    return "user namespaces are off: `sysctl -w user.max_user_namespaces=10000` as root";
  }
  if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" && ::geteuid() != 0) {
    return "AppArmor denies user namespaces to programs without a profile: "
           "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root, or give warren a profile that allows "
           "`userns`";
  }
  return "a container or another sandbox may forbid new namespaces: run Warren outside it";
}

Error with_namespace_hint(Error error) {
  bool is_forbidden = error.code() == Code::kNotPermitted || error.code() == Code::kDenied ||
                      error.code() == Code::kNoSpace || error.code() == Code::kLimit;
  if (!is_forbidden || !error.hint().empty()) return error;
  return std::move(error).with_hint(namespace_hint());
}

Status write_proc(pid_t pid, const char* file, const std::string& text) {
  std::string path = fmt::format("/proc/{}/{}", pid, file);
  Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", path));
  return write_all(fd.get(), as_bytes(text)).within(path);
}

// Maps every id that we have to itself.
Result<std::string> identity_map(const char* file) {
  std::string ours = WARREN_TRY(read_host_file(fmt::format("/proc/self/{}", file), 65'536));
  std::string text;
  std::size_t at = 0;
  while (at < ours.size()) {
    std::size_t end = std::min(ours.find('\n', at), ours.size());
    unsigned long inside = 0;
    unsigned long outside = 0;
    unsigned long count = 0;
    if (std::sscanf(ours.substr(at, end - at).c_str(), "%lu %lu %lu", &inside, &outside, &count) == 3) {
      text += fmt::format("{} {} {}\n", inside, inside, count);
    }
    at = end + 1;
  }
  return text;
}

Status map_ids(pid_t first) {
  if (::geteuid() == 0) {
    std::string users = WARREN_TRY(identity_map("uid_map"));
    std::string groups = WARREN_TRY(identity_map("gid_map"));
    WARREN_TRY(write_proc(first, "uid_map", users));
    return write_proc(first, "gid_map", groups);
  }
  WARREN_TRY(write_proc(first, "uid_map", fmt::format("{0} {0} 1\n", ::geteuid())));
  WARREN_TRY(write_proc(first, "setgroups", "deny"));
  return write_proc(first, "gid_map", fmt::format("{0} {0} 1\n", ::getegid()));
}

Result<std::vector<Fd>> open_namespaces(bool has_network) {
  std::vector<Fd> fds;
  for (const char* name : {"user", "ipc", "net", "pid", "mnt"}) {
    bool is_hosts = has_network && std::string_view(name) == "net";
    if (is_hosts) continue;
    std::string path = fmt::format("/proc/self/ns/{}", name);
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.is_open()) return system_error(errno, fmt::format("open {}", path));
    fds.push_back(std::move(fd));
  }
  return fds;
}

// Runs the first process.
class FirstProcess {
 public:
  FirstProcess(const Plan& plan, Fd control) : interior_(plan), plan_(plan), control_(std::move(control)) {}

  [[noreturn]] void live(const std::string& source) {
    Status built = build(source);
    if (!built.ok()) {
      send_error(control_.get(), with_namespace_hint(built.error())).ignore("nobody is left to receive it");
      ::_exit(1);
    }
    wait_for_end();
    ::_exit(0);
  }

 private:
  Status build(const std::string& source) {
    Message mapped = WARREN_TRY(receive_message(control_.get()));
    std::vector<Fd> namespaces = WARREN_TRY(open_namespaces(plan_.has_network));
    bool is_limited = plan_.processes_max && has_own_pid_max() && limit_namespace(*plan_.processes_max).ok();
    WARREN_TRY(interior_.prepare());
    std::vector<Fd> requests = WARREN_TRY(interior_.open_filesystems(source));
    Fd proxy;
    if (plan_.has_proxy) proxy = WARREN_TRY(listen_for_proxy());
    std::vector<int> fds;
    for (const Fd& fd : requests) fds.push_back(fd.get());
    if (plan_.has_proxy) fds.push_back(proxy.get());
    for (const Fd& fd : namespaces) fds.push_back(fd.get());
    std::array<std::string, 2> mounted{"mounted", is_limited ? "limited" : "unlimited"};
    WARREN_TRY(send_message(control_.get(), mounted, fds));
    requests.clear();
    proxy = Fd();
    namespaces.clear();
    Message serving = WARREN_TRY(receive_message(control_.get()));
    WARREN_TRY(interior_.finish());
    settle();
    return send_message(control_.get(), word("open"));
  }

  // From here on commands run beside us: they must not be able to inspect or use anything of ours.
  static void settle() {
    ::prctl(PR_SET_NAME, "warren-init");
    hide_arguments("warren-init");  // addresses of backends, paths of the host
    ::prctl(PR_SET_DUMPABLE, 0);
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if it died just before this, its end of `control_` is closed
    if (::chdir("/") != 0) ::_exit(1);
  }

  void wait_for_end() {
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, nullptr);
    Fd signals(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
    std::array<pollfd, 4> all{{{control_.get(), POLLIN, 0},
                               {signals.get(), POLLIN, 0},
                               {interior_.watch_fd(), POLLIN, 0},
                               {interior_.mounts_fd(), POLLPRI, 0}}};
    for (;;) {
      while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
      if (::poll(all.data(), all.size(), runs_.patience_ms()) < 0) continue;
      runs_.work();
      signalfd_siginfo ignored{};
      while (::read(signals.get(), &ignored, sizeof ignored) > 0) continue;
      if (all[3].revents != 0) interior_.follow_mounts();
      if (all[2].revents != 0) interior_.follow();
      if (all[0].revents == 0) continue;
      Result<Message> asked = receive_message(control_.get());
      if (!asked.ok()) return;  // our starter is gone
      if (asked->verb() != kEndRun) break;
      end_run(*asked);
    }
    ::kill(-1, SIGKILL);
    interior_.unmount();
    send_message(control_.get(), word("ended")).ignore("nobody is left to receive it");
  }

  void end_run(Message& asked) {
    if (asked.fds.empty()) return;
    runs_.add(std::move(asked.fds[0]), asked.fds.size() > 1 ? std::move(asked.fds[1]) : Fd());
    runs_.work();
  }

  Interior interior_;
  const Plan& plan_;
  Fd control_;
  RunEnder runs_;
};

}  // namespace

Result<std::unique_ptr<Sandbox>> Sandbox::start(const Plan& plan, const std::string& source) {
  auto [ours, theirs] = WARREN_TRY(open_message_pair());
  unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | SIGCHLD;
  if (!plan.has_network) flags |= CLONE_NEWNET;
  // Not fork: only the raw system call makes a process the first of its pid namespace.
  auto first = static_cast<pid_t>(::syscall(SYS_clone, flags, 0, 0, 0, 0));
  if (first < 0) return with_namespace_hint(system_error(errno, "create namespaces"));
  if (first == 0) {
    auto keep = static_cast<unsigned>(theirs.get());
    ::close_range(3, keep - 1, 0);
    ::close_range(keep + 1, ~0U, 0);
    // Nobody who waits for our starter's output to close must wait for us.
    Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int standard : {0, 1, 2}) ::dup2(nothing.get(), standard);
    nothing = Fd();
    FirstProcess(plan, Fd(static_cast<int>(keep))).live(source);
  }
  theirs = Fd();
  std::unique_ptr<Sandbox> sandbox(new Sandbox(first, std::move(ours), plan));
  Status mapped = map_ids(first);
  if (!mapped.ok()) return with_namespace_hint(std::move(mapped).take_error().within("map users"));
  WARREN_TRY(send_message(sandbox->control_.get(), word("mapped")));
  return sandbox;
}

Sandbox::~Sandbox() {
  ::kill(first_, SIGKILL);
  // Not awaited: it ends when every process inside is gone, and their parents are outside.
  ::waitpid(first_, nullptr, WNOHANG);
}

Result<Sandbox::Requests> Sandbox::take_requests() {
  Message mounted = WARREN_TRY(receive_message(control_.get()).within("start the sandbox"));
  limits_processes_ = mounted.fields.size() > 1 && mounted.fields[1] == "limited";
  std::size_t count = 1U + (has_home_ ? 1U : 0U) + (has_names_ ? 1U : 0U) + (has_proxy_ ? 1U : 0U);
  if (mounted.fds.size() <= count) return Error(Code::kIo, "the sandbox did not send its descriptors");
  auto next = mounted.fds.begin();
  Requests requests{.base = std::move(*next++), .home = {}, .names = {}};
  if (has_home_) requests.home = std::move(*next++);
  if (has_names_) requests.names = std::move(*next++);
  if (has_proxy_) proxy_ = std::move(*next++);
  mounted.fds.erase(mounted.fds.begin(), mounted.fds.begin() + static_cast<std::ptrdiff_t>(count));
  namespaces_ = std::move(mounted.fds);
  return requests;
}

Status Sandbox::open() {
  WARREN_TRY(send_message(control_.get(), word("serving")));
  WARREN_TRY(receive_message(control_.get()).within("start the sandbox"));
  return Ok{};
}

Status Sandbox::end_run(int mark, int done) const {
  std::vector<int> fds{mark};
  if (done >= 0) fds.push_back(done);
  return send_message(control_.get(), word(kEndRun), fds);
}

std::vector<int> Sandbox::namespaces() const {
  std::vector<int> fds;
  for (const Fd& fd : namespaces_) fds.push_back(fd.get());
  return fds;
}

void Sandbox::end() {
  namespaces_.clear();  // they keep the mounts alive
  if (!send_message(control_.get(), word("end")).ok()) return;
  pollfd answer{control_.get(), POLLIN, 0};
  while (::poll(&answer, 1, kEndWaitMs) < 0 && errno == EINTR) continue;
}

}  // namespace warren
