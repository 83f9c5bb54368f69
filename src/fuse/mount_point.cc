#include "fuse/mount_point.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "fuse/channel.h"
#include "os/error.h"
#include "os/files/dir_reader.h"
#include "os/files/host_files.h"
#include "os/files/mount_table.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"

namespace warren {
namespace {

constexpr std::chrono::seconds kAnswerWait{2};

constexpr const char* kType = "fuse.warren";

std::string kernel_options(const MountOptions& options) {
  std::string text = fmt::format("default_permissions,max_read={}", kIoBytesMax);
  if (options.audience == MountFor::kEveryone) text += ",allow_other";
  return text;
}

Error no_device(int number) {
  if (number == ENOENT || number == ENODEV || number == ENXIO) {
    return {Code::kUnavailable, "this machine has no /dev/fuse", "load the kernel's module: `modprobe fuse`"};
  }
  return std::move(system_error(number, "open /dev/fuse"))
      .with_hint("/dev/fuse must be readable and writable for you: `chmod 0666 /dev/fuse` as root");
}

Result<Fd> mount_as_root(const std::string& dir, const MountOptions& options) {
  Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device.is_open()) return no_device(errno);
  std::string text = fmt::format("fd={},rootmode=40000,user_id={},group_id={},{}", device.get(), ::getuid(), ::getgid(),
                                 kernel_options(options));
  unsigned long flags = MS_NOSUID | MS_NODEV;
  if (options.read_only) flags |= MS_RDONLY;
  if (options.no_exec) flags |= MS_NOEXEC;
  if (::mount(options.source.c_str(), dir.c_str(), kType, flags, text.c_str()) != 0) {
    return system_error(errno, fmt::format("mount {}", quote(dir)));
  }
  return device;
}

// fusermount3 splits its options at commas.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == ',' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// Runs fusermount3 (words[0]); on failure returns its error message. No `passed_fd`: -1.
Status run_fusermount(const std::vector<std::string>& words, int passed_fd) {
  std::vector<char*> argv = exec_strings(words);
  std::string commfd = fmt::format("_FUSE_COMMFD={}", passed_fd);
  std::vector<char*> env = environment_with(commfd);
  Pipe said = WARREN_TRY(open_pipe());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, said.writer.get(), 2);
  pid_t pid = 0;
  int failed =
      ::posix_spawnp(&pid, "fusermount3", &actions, nullptr, argv.data(), passed_fd >= 0 ? env.data() : environ);
  ::posix_spawn_file_actions_destroy(&actions);
  said.writer = Fd();
  if (failed == ENOENT) {
    return Error(Code::kUnavailable, "fusermount3 is not installed; users other than root need it to mount",
                 "install it: `apt-get install fuse3`");
  }
  if (failed != 0) return system_error(failed, "run fusermount3");
  std::string message(4096, '\0');
  Result<std::size_t> got = read_full(said.reader.get(), as_mutable_bytes(message));
  message.resize(got.ok() ? *got : 0);
  while (!message.empty() && message.back() == '\n') message.pop_back();
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Ok{};
  bool device = message.find("/dev/fuse") != message.npos;
  bool busy = message.find("busy") != message.npos;
  return Error(busy ? Code::kBusy : Code::kDenied, message.empty() ? "fusermount3 failed" : message,
               device ? "/dev/fuse must be readable and writable for you: `chmod 0666 /dev/fuse` as root" : "");
}

Result<Fd> receive_fd(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return Error(Code::kIo, "fusermount3 sent no descriptor");
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof number);
  return Fd(number);
}

Result<Fd> mount_as_user(const std::string& dir, const MountOptions& options) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return system_error(errno, "socketpair");
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  if (::fcntl(theirs.get(), F_SETFD, 0) != 0) return system_error(errno, "fcntl");
  std::string text =
      fmt::format("{},fsname={},subtype=warren,nosuid,nodev{}{}", kernel_options(options), escaped(options.source),
                  options.read_only ? ",ro" : "", options.no_exec ? ",noexec" : "");
  WARREN_TRY(run_fusermount({"fusermount3", "-o", text, "--", dir}, theirs.get()));
  return receive_fd(ours.get());
}

bool leads_to(int from, const std::string& link, const std::string& dir) {
  Result<std::string> target = read_host_link_below(from, link);
  return target.ok() && (*target == dir || target->starts_with(dir + "/"));
}

// Fails if the process has ended or we may not inspect it.
Result<bool> is_used_by(int process, const std::string& dir) {
  if (leads_to(process, "cwd", dir)) return true;
  Fd fds = WARREN_TRY(open_host_dir_below(process, "fd"));
  DirReader reader = WARREN_TRY(DirReader::open(fds.get()));
  while (const DirReader::Entry* entry = WARREN_TRY(reader.next())) {
    if (leads_to(fds.get(), std::string(entry->name), dir)) return true;
  }
  return false;
}

Result<bool> is_used_by_a_process(const std::string& dir) {
  Fd proc = WARREN_TRY(open_host_dir("/proc"));
  DirReader reader = WARREN_TRY(DirReader::open(proc.get()));
  while (const DirReader::Entry* entry = WARREN_TRY(reader.next())) {
    if (!parse_number<std::int64_t>(entry->name)) continue;
    Result<Fd> process = open_host_dir_below(proc.get(), entry->name);
    if (!process.ok()) continue;
    Result<bool> is_used = is_used_by(process->get(), dir);
    if (is_used.ok() && *is_used) return true;
  }
  return false;
}

}  // namespace

Result<Fd> mount_fuse(const std::string& dir, const MountOptions& options) {
  struct stat info {};
  if (::stat(dir.c_str(), &info) != 0) return system_error(errno, fmt::format("mount on {}", quote(dir)));
  if (!S_ISDIR(info.st_mode)) return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(dir)));
  if (::geteuid() == 0) return mount_as_root(dir, options);  // root is the owner and always allowed
  if (options.audience == MountFor::kRootToo) {
    // For the kernel root is just another user. Rejecting the others ourselves would not keep them from the kernel's
    // caches, which it serves without asking us.
    return Error(Code::kUnsupported, "the kernel cannot let root in without letting everyone in",
                 "mount as root; or let everyone in with --allow-other, and let permissions decide");
  }
  return mount_as_user(dir, options);
}

void read_further_ahead(const std::string& dir) {
  struct stat info {};
  if (::geteuid() != 0 || ::stat(dir.c_str(), &info) != 0) return;
  std::string path = fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", major(info.st_dev), minor(info.st_dev));
  Fd setting(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!setting.is_open()) return;
  write_all(setting.get(), as_bytes("1024")).ignore("reading works without it");
}

Status unmount_fuse(const std::string& dir, Unmount how) {
  if (::geteuid() != 0) {
    if (how == Unmount::kDetach) return run_fusermount({"fusermount3", "-z", "-u", "--", dir}, -1);
    return run_fusermount({"fusermount3", "-u", "--", dir}, -1);
  }
  int flags = UMOUNT_NOFOLLOW;
  if (how == Unmount::kDetach) flags |= MNT_DETACH;
  if (::umount2(dir.c_str(), flags) == 0) return Ok{};
  if (errno == EINVAL) return Error(Code::kInvalid, fmt::format("nothing is mounted on {}", quote(dir)));
  return system_error(errno, fmt::format("unmount {}", quote(dir)));
}

bool is_dead_mount(const std::string& dir) {
  // In a thread of its own: a server that exists but does not answer would block us forever.
  auto answer = std::make_shared<std::promise<bool>>();  // shared with the thread, which may outlive this call
  std::future<bool> is_dead = answer->get_future();
  std::thread([dir, answer] {
    // Not stat, which the kernel may answer from its cache after the server's death.
    struct statvfs info {};
    bool failed = ::statvfs(dir.c_str(), &info) != 0;
    answer->set_value(failed && (errno == ENOTCONN || errno == ECONNABORTED));
  }).detach();
  return is_dead.wait_for(kAnswerWait) == std::future_status::ready && is_dead.get();
}

Result<std::string> resolve_mount_point(const std::string& dir) {
  if (!is_dead_mount(dir)) return canonical_host_path(dir);
  std::string path = dir;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::string resolved = WARREN_TRY(canonical_host_path(std::string(directory_of(path))));
  return fmt::format("{}/{}", resolved == "/" ? "" : resolved, base_name(path));
}

bool is_in_use(const std::string& dir) {
  Result<bool> is_used = is_used_by_a_process(dir);
  return is_used.ok() && *is_used;
}

Result<std::vector<MountedFs>> list_warren_mounts() {
  std::vector<MountEntry> table = WARREN_TRY(read_mount_table());
  std::vector<MountedFs> mounts;
  for (MountEntry& entry : table) {
    if (entry.type == kType) mounts.push_back({.dir = std::move(entry.dir), .source = std::move(entry.source)});
  }
  return mounts;
}

}  // namespace warren
