#include "fuse/mount_point.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
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

#include "base/path.h"
#include "fuse/channel.h"
#include "os/error.h"
#include "os/host_files.h"
#include "os/mount_table.h"
#include "os/pipe.h"

extern char** environ;

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

// fusermount3 parses its options at commas.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == ',' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// Runs fusermount3; what it says of a failure is the message.
Status run_fusermount(const std::vector<std::string>& arguments, int passed_fd) {
  std::vector<char*> argv{const_cast<char*>("fusermount3")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> env;
  for (char** e = environ; *e != nullptr; ++e) env.push_back(*e);
  std::string commfd = fmt::format("_FUSE_COMMFD={}", passed_fd);
  if (passed_fd >= 0) env.push_back(commfd.data());
  env.push_back(nullptr);
  Pipe said = WARREN_TRY(open_pipe());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, said.writer.get(), 2);
  pid_t pid = 0;
  int failed = ::posix_spawnp(&pid, "fusermount3", &actions, nullptr, argv.data(), env.data());
  ::posix_spawn_file_actions_destroy(&actions);
  said.writer = Fd();
  if (failed == ENOENT) {
    return Error(Code::kUnavailable, "there is no fusermount3, which mounts for users other than root",
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
  WARREN_TRY(run_fusermount({"-o", text, "--", dir}, theirs.get()));
  return receive_fd(ours.get());
}

}  // namespace

Result<Fd> mount_fuse(const std::string& dir, const MountOptions& options) {
  struct stat info {};
  if (::stat(dir.c_str(), &info) != 0) return system_error(errno, fmt::format("mount on {}", quote(dir)));
  if (!S_ISDIR(info.st_mode)) return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(dir)));
  if (::geteuid() == 0) return mount_as_root(dir, options);  // root is the owner, and in anyway
  if (options.audience == MountFor::kRootToo) {
    // To the kernel root is one of the others. Turning the rest away ourselves would not keep them from
    // what the kernel has in memory, which it hands out without asking us.
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
  write_all(setting.get(), as_bytes("1024")).ignore("reading works without");
}

Status unmount_fuse(const std::string& dir, Unmount how) {
  if (::geteuid() != 0) {
    std::vector<std::string> arguments{"-u", "--", dir};
    if (how == Unmount::kDetach) arguments.insert(arguments.begin(), "-z");
    return run_fusermount(arguments, -1);
  }
  int flags = UMOUNT_NOFOLLOW;
  if (how == Unmount::kDetach) flags |= MNT_DETACH;
  if (::umount2(dir.c_str(), flags) == 0) return Ok{};
  if (errno == EINVAL) return Error(Code::kInvalid, fmt::format("nothing is mounted on {}", quote(dir)));
  return system_error(errno, fmt::format("unmount {}", quote(dir)));
}

bool is_dead_mount(const std::string& dir) {
  // In a thread of its own: a server that is there and does not answer would keep us waiting for ever.
  auto answer = std::make_shared<std::promise<bool>>();  // shared with the thread, which may come too late
  std::future<bool> is_dead = answer->get_future();
  std::thread([dir, answer] {
    // Not stat, which the kernel may answer from memory after the server's death.
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
  namespace files = std::filesystem;
  std::error_code failed;
  auto leads_there = [&](const files::path& link) {
    std::error_code none;
    std::string target = files::read_symlink(link, none).string();
    return target == dir || target.starts_with(dir + "/");
  };
  for (const files::directory_entry& process : files::directory_iterator("/proc", failed)) {
    std::string name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    if (leads_there(process.path() / "cwd")) return true;
    for (files::directory_iterator fd(process.path() / "fd", failed); !failed && fd != files::directory_iterator();
         fd.increment(failed)) {
      if (leads_there(fd->path())) return true;
    }
  }
  return false;
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
