#include "os/processes/confined.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <optional>

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"

namespace warren {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the numbers of system calls are not known for this machine"
#endif
constexpr std::uint32_t kOtherNumbers = 0x40000000;  // x32's
constexpr uid_t kNobody = 65534;

// Newer than the headers of some systems; the same number on all machines.
constexpr std::uint32_t kFchmodat2 = 452;
constexpr std::uint32_t kSetxattrat = 463;
constexpr std::uint32_t kRemovexattrat = 466;
constexpr std::uint32_t kFileSetattr = 469;

// Sockets; other processes; rights, namespaces and mounts; parts of the kernel that have had many bugs; changes to
// files that Landlock does not see (their length in its first versions, their mode, owner, times and attributes).
constexpr auto kRefusedCalls = std::to_array<std::uint32_t>({
  SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept4, SYS_sendto, SYS_sendmsg, SYS_ptrace,
      SYS_process_vm_readv, SYS_process_vm_writev, SYS_kill, SYS_tkill, SYS_pidfd_open, SYS_pidfd_getfd,
      SYS_pidfd_send_signal, SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree,
      SYS_move_mount, SYS_fsopen, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_bpf, SYS_perf_event_open,
      SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_init_module, SYS_finit_module, SYS_kexec_load,
      SYS_open_by_handle_at, SYS_setuid, SYS_setgid, SYS_setresuid, SYS_setresgid, SYS_prlimit64, SYS_memfd_create,
      SYS_execveat, SYS_inotify_init1, SYS_fanotify_init, SYS_shmget, SYS_shmat, SYS_msgget, SYS_semget, SYS_clone3,
      SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_truncate, SYS_fchmod, SYS_fchmodat, kFchmodat2,
      SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, kSetxattrat, SYS_removexattr,
      SYS_lremovexattr, SYS_fremovexattr, kRemovexattrat, kFileSetattr,
#if defined(__x86_64__)
      SYS_fork, SYS_vfork, SYS_accept, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
});

using Filter = std::vector<sock_filter>;

sock_filter load_word(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
sock_filter answer(std::uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }

// Threads are allowed; processes are not. What a library tries first and can do without fails as if it did not exist.
Filter make_filter() {
  const std::uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
  Filter filter{load_word(offsetof(seccomp_data, arch)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                answer(SECCOMP_RET_KILL_PROCESS),
                load_word(offsetof(seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kOtherNumbers, 0, 1),
                answer(SECCOMP_RET_KILL_PROCESS)};
  for (std::uint32_t call : kRefusedCalls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    filter.push_back(answer(call == SYS_clone3 ? SECCOMP_RET_ERRNO | ENOSYS : refuse));
  }
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
  filter.push_back(load_word(offsetof(seccomp_data, args)));  // the low half of the flags
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
  filter.push_back(answer(refuse));
  filter.push_back(answer(SECCOMP_RET_ALLOW));
  return filter;
}

// What a program needs to run at all, and what converters look up: fonts, character maps.
constexpr std::array kReadable{"/usr",       "/bin",        "/lib",        "/lib64",           "/nix/store",
                               "/gnu/store", "/etc/fonts",  "/opt",        "/etc/ld.so.cache", "/etc/ld.so.preload",
                               "/dev/null",  "/dev/random", "/dev/urandom"};

// Closed if the kernel has no Landlock.
Result<Fd> make_landlock() {
  constexpr std::uint64_t kRead =
      LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
  constexpr std::uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                   LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                   LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                   LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                   LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  constexpr std::uint64_t kTruncate = std::uint64_t{1} << 14;  // known from version 3 on
  long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return Fd();
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = version < 3 ? kRead | kWrite : kRead | kWrite | kTruncate;
  Fd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0)));
  if (!ruleset.is_open()) return system_error(errno, "create Landlock rules");
  for (const char* path : kReadable) {
    Fd place(::open(path, O_PATH | O_CLOEXEC));
    struct stat info {};
    if (!place.is_open() || ::fstat(place.get(), &info) != 0) continue;  // a missing path needs no rule
    landlock_path_beneath_attr rule{};
    rule.allowed_access = S_ISDIR(info.st_mode) ? kRead : kRead & ~std::uint64_t{LANDLOCK_ACCESS_FS_READ_DIR};
    rule.parent_fd = place.get();
    if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
      return system_error(errno, fmt::format("allow reading {}", quote(path)));
    }
  }
  return ruleset;
}

Result<std::string> find_in_path(const std::string& name) {
  const char* given = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nothing changes the environment
  std::string_view rest = given == nullptr ? std::string_view("/usr/bin:/bin") : std::string_view(given);
  for (bool is_last = false; !is_last;) {
    std::size_t end = rest.find(':');
    is_last = end == rest.npos;
    std::string path = fmt::format("{}/{}", rest.substr(0, end), name);
    struct stat info {};
    bool is_program = path.front() == '/' && ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (is_program && ::access(path.c_str(), X_OK) == 0) return path;
    if (!is_last) rest.remove_prefix(end + 1);
  }
  return Error(Code::kNotFound, fmt::format("no program {}", quote(name)));
}

// Everything the child needs, made before: between fork and exec it may call nothing but the kernel.
struct Confined {
  std::string path;
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::array<int, 3> streams;
  std::array<std::pair<int, rlimit>, 5> limits;
  Filter filter;
  Fd landlock;
  bool is_root = false;
  int report = -1;  // gets errno if something that must hold cannot be had
};

[[noreturn]] void give_up(const Confined& plan) {
  int number = errno;
  [[maybe_unused]] ssize_t told = ::write(plan.report, &number, sizeof number);
  ::_exit(126);
}

void leave_the_world(const Confined& plan) {
  // Where it is not allowed, the filter and Landlock remain.
  constexpr int kApart = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWUTS;
  if (::unshare(plan.is_root ? kApart : kApart | CLONE_NEWUSER) != 0 && !plan.is_root) ::unshare(CLONE_NEWUSER);
  if (!plan.is_root) return;
  bool is_nobody = ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
                   ::syscall(SYS_setresgid, kNobody, kNobody, kNobody) == 0 &&
                   ::syscall(SYS_setresuid, kNobody, kNobody, kNobody) == 0;
  if (!is_nobody) give_up(plan);
}

[[noreturn]] void run_child_confined(const Confined& plan) {
  ::setsid();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int i = 0; i < 3; ++i) {
    if (::dup2(plan.streams[static_cast<std::size_t>(i)], i) < 0) give_up(plan);
  }
  if (::chdir("/") != 0) give_up(plan);
  leave_the_world(plan);
  for (const auto& [what, limit] : plan.limits) {
    if (::setrlimit(static_cast<__rlimit_resource>(what), &limit) != 0) give_up(plan);
  }
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up(plan);
#if defined(SYS_close_range)
  constexpr unsigned kCloseAtExec =
      4;  // CLOSE_RANGE_CLOEXEC; ours are closed anyway, those of a host program may not be
  ::syscall(SYS_close_range, 3U, ~0U, kCloseAtExec);
#endif
  bool has_landlock = plan.landlock.is_open();
  if (has_landlock && ::syscall(SYS_landlock_restrict_self, plan.landlock.get(), 0) != 0) give_up(plan);
  auto* filter = const_cast<sock_filter*>(plan.filter.data());  // NOLINT: the kernel does not write there
  sock_fprog program{static_cast<unsigned short>(plan.filter.size()), filter};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) give_up(plan);
  ::execve(plan.path.c_str(), plan.argv.data(), plan.envp.data());
  give_up(plan);
}

std::vector<std::string> harmless_environment() {
  std::vector<std::string> variables;
  for (const char* name : {"PATH", "LANG"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing changes the environment
    if (value != nullptr) variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

rlimit limit_of(std::uint64_t value) { return {.rlim_cur = value, .rlim_max = value}; }

}  // namespace

Result<Captured> run_confined(const std::vector<std::string>& words, int input, const ConfinedLimits& limits) {
  Fd output = WARREN_TRY(open_memory_file());
  Fd errors = WARREN_TRY(open_memory_file());
  Pipe report = WARREN_TRY(open_pipe());
  std::vector<std::string> variables = harmless_environment();
  auto seconds = static_cast<std::uint64_t>(limits.time.count());
  Confined plan {
    .path = WARREN_TRY(find_in_path(words.front()))
    , .argv = exec_strings(words), .envp = exec_strings(variables), .streams = {input, output.get(), errors.get()},
      .limits = {{{RLIMIT_AS, limit_of(limits.memory_bytes)},
                  {RLIMIT_FSIZE, limit_of(limits.output_bytes)},
                  {RLIMIT_CPU, limit_of(seconds)},
                  {RLIMIT_NOFILE, limit_of(limits.files)},
                  {RLIMIT_CORE, limit_of(0)}}},
      .filter = make_filter()
  };
  plan.landlock = WARREN_TRY(make_landlock());
  plan.is_root = ::geteuid() == 0;
  plan.report = report.writer.get();
  pid_t pid = ::fork();
  if (pid < 0) return system_error(errno, fmt::format("run {}", quote(words.front())));
  if (pid == 0) run_child_confined(plan);
  report.writer = Fd();
  int problem = 0;
  Result<std::size_t> told = read_some(report.reader.get(), {reinterpret_cast<std::byte*>(&problem), sizeof problem});
  Captured captured = WARREN_TRY(wait_captured(pid, words.front(), limits.time, output.get(), errors.get()));
  if (told.ok() && *told == sizeof problem) {
    if (problem == EINVAL) return Error(Code::kUnsupported, "the kernel cannot confine programs: it has no seccomp");
    return system_error(problem, fmt::format("run {} confined", quote(words.front())));
  }
  return captured;
}

}  // namespace warren
