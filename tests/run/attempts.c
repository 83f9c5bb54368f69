// Attempts to escape from a sandbox, one at a time: attempts NAME [ARGUMENT]...
//
// Exit status 0: the attempt was refused, as it must be (the reason is printed). 1: it succeeded. 2: it could not be made.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int outcome(long result) {
  if (result < 0) {
    printf("refused: %s\n", strerror(errno));
    return 0;
  }
  printf("it worked\n");
  return 1;
}

// It must be refused with exactly this error, to show that the intended protection refused it.
static int outcome_is(long result, int wanted) {
  if (result < 0 && errno != wanted) {
    printf("refused for another reason: %s\n", strerror(errno));
    return 2;
  }
  return outcome(result);
}

static int write_to(const char* path, int flags) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
  if (fd < 0) return outcome(-1);
  return outcome(write(fd, "x", 1));
}

static int connect_to(struct sockaddr_un* address, socklen_t size) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return 2;
  return outcome(connect(fd, (struct sockaddr*)address, size));
}

static int try_socket(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  return connect_to(&address, sizeof address);
}

static int try_family(int family) {
  int pair[2];
  if (outcome_is(socket(family, SOCK_DGRAM, 0), EAFNOSUPPORT) != 0) return 1;
  if (outcome_is(socket(family, SOCK_STREAM, 0), EAFNOSUPPORT) != 0) return 1;
  if (outcome_is(syscall(SYS_socket, family | 1UL << 32, SOCK_RAW, 0), EAFNOSUPPORT) != 0) return 1;
  return outcome_is(socketpair(family, SOCK_STREAM, 0, pair), EAFNOSUPPORT);
}

static int try_abstract(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  return connect_to(&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)));
}

// Tries the root directory of every process.
static int try_roots(const char* path) {
  DIR* proc = opendir("/proc");
  int worked = 0;
  for (struct dirent* entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
    if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name)) continue;
    char name[8192];
    snprintf(name, sizeof name, "/proc/%s/root%s", entry->d_name, path);
    printf("%s ", name);
    worked |= write_to(name, O_CREAT) == 1;
    snprintf(name, sizeof name, "/proc/%s/cwd/../../../../../../../..%s", entry->d_name, path);
    worked |= write_to(name, O_CREAT) == 1;
  }
  return worked;
}

static int try_namespace(const char* path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) return outcome(-1);
  return outcome(setns(fd, 0));
}

static int try_handle(void) {
  struct {
    struct file_handle handle;
    char bytes[128];
  } both = {.handle = {.handle_bytes = 128}};
  int mount = 0;
  if (name_to_handle_at(AT_FDCWD, "/etc", &both.handle, &mount, 0) != 0) return 2;
  int fd = open("/", O_RDONLY);
  return outcome(open_by_handle_at(fd, &both.handle, O_RDONLY));
}

// Tries every descriptor that is not a standard stream.
static int try_descriptors(void) {
  int found = 0;
  for (int fd = 3; fd < 4096; ++fd) found |= fcntl(fd, F_GETFD) >= 0;
  if (!found) printf("refused: there is none\n");
  return found;
}

static int try_mount_attribute(void) {
  struct mount_attr attr = {.attr_clr = 1};  // clears read-only
  return outcome_is(syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof attr), EPERM);
}

static int try_process_memory(const char* pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/mem", pid);
  return outcome(open(path, O_RDWR));
}

static int try_compat_mount(void) {
#if defined(__x86_64__)
  long result = -EPERM;
  // mount(2) by its 32-bit system call number, which a filter for 64-bit calls would let through.
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(21), "b"(0), "c"(0), "d"(0), "S"(0), "D"(0) : "memory");
  errno = (int)-result;
  return outcome_is(result < 0 ? -1 : 0, EPERM);
#else
  printf("refused: this machine has no such way\n");
  return 0;
#endif
}

static int try_clone(unsigned long flags) {
  long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid((pid_t)pid, NULL, 0);
  return outcome_is(pid, EPERM);
}

static int try_privilege(void) {
  printf("euid %d\n", (int)geteuid());
  return geteuid() == 0 ? 1 : 0;
}

// Tries to regain the dropped capabilities.
static int try_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  memset(data, 0xff, sizeof data);
  return outcome(syscall(SYS_capset, &header, data));
}

static int try_call(const char* name, const char* a) {
  char buffer[256] = {0};
  if (!strcmp(name, "mount")) return outcome_is(mount("none", a, "tmpfs", 0, NULL), EPERM);
  if (!strcmp(name, "bind")) return outcome_is(mount(a, "/tmp", NULL, MS_BIND, NULL), EPERM);
  if (!strcmp(name, "remount")) return outcome_is(mount(NULL, a, NULL, MS_REMOUNT | MS_BIND, NULL), EPERM);
  if (!strcmp(name, "umount")) return outcome_is(umount2(a, MNT_DETACH), EPERM);
  if (!strcmp(name, "fsopen")) return outcome_is(syscall(SYS_fsopen, "tmpfs", 0), EPERM);
  if (!strcmp(name, "open_tree")) return outcome_is(syscall(SYS_open_tree, AT_FDCWD, "/", 1), EPERM);
  if (!strcmp(name, "move_mount")) return outcome_is(syscall(SYS_move_mount, AT_FDCWD, "/", AT_FDCWD, "/tmp", 0), EPERM);
  if (!strcmp(name, "pivot_root")) return outcome_is(syscall(SYS_pivot_root, "/tmp", "/tmp"), EPERM);
  if (!strcmp(name, "chroot")) return outcome_is(chroot(a), EPERM);
  if (!strcmp(name, "unshare_user")) return outcome_is(unshare(CLONE_NEWUSER), EPERM);
  if (!strcmp(name, "unshare_mount")) return outcome_is(unshare(CLONE_NEWNS), EPERM);
  if (!strcmp(name, "clone_user")) return try_clone(CLONE_NEWUSER);
  if (!strcmp(name, "clone_user_high")) return try_clone(CLONE_NEWUSER | 1UL << 32);
  if (!strcmp(name, "clone3")) return outcome_is(syscall(SYS_clone3, buffer, sizeof buffer), ENOSYS);
  if (!strcmp(name, "keyctl")) return outcome_is(syscall(SYS_keyctl, 0, -3, 1), EPERM);
  if (!strcmp(name, "add_key")) return outcome_is(syscall(SYS_add_key, "user", "k", "v", 1, -3), EPERM);
  if (!strcmp(name, "bpf")) return outcome_is(syscall(SYS_bpf, 0, buffer, sizeof buffer), EPERM);
  if (!strcmp(name, "perf")) return outcome_is(syscall(SYS_perf_event_open, buffer, 0, -1, -1, 0), EPERM);
  if (!strcmp(name, "userfaultfd")) return outcome_is(syscall(SYS_userfaultfd, 0), EPERM);
  if (!strcmp(name, "io_uring")) return outcome_is(syscall(SYS_io_uring_setup, 1, buffer), EPERM);
  if (!strcmp(name, "init_module")) return outcome_is(syscall(SYS_init_module, buffer, 1, ""), EPERM);
  if (!strcmp(name, "finit_module")) return outcome_is(syscall(SYS_finit_module, 0, "", 0), EPERM);
  if (!strcmp(name, "kexec")) return outcome_is(syscall(SYS_kexec_load, 0, 0, NULL, 0), EPERM);
  if (!strcmp(name, "reboot")) return outcome_is(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL), EPERM);
  if (!strcmp(name, "settime")) return outcome_is(syscall(SYS_settimeofday, buffer, NULL), EPERM);
  if (!strcmp(name, "sethostname")) return outcome_is(sethostname("x", 1), EPERM);
  if (!strcmp(name, "swapoff")) return outcome_is(syscall(SYS_swapoff, "/x"), EPERM);
  if (!strcmp(name, "tiocsti")) return outcome_is(ioctl(0, TIOCSTI, "x"), EPERM);
  if (!strcmp(name, "tiocsti_high")) return outcome_is(syscall(SYS_ioctl, 0, TIOCSTI | 1UL << 32, "x"), EPERM);
  if (!strcmp(name, "tioclinux")) return outcome_is(ioctl(0, 0x541c, buffer), EPERM);
  if (!strcmp(name, "mknod_block")) return outcome(mknod(a, S_IFBLK | 0600, makedev(254, 0)));
  if (!strcmp(name, "mknod_char")) return outcome(mknod(a, S_IFCHR | 0600, makedev(1, 1)));
  if (!strcmp(name, "kill")) return outcome(kill(atoi(a), SIGTERM));
  if (!strcmp(name, "ptrace")) return outcome(ptrace(PTRACE_ATTACH, atoi(a), NULL, NULL));
  if (!strcmp(name, "mkdir")) return outcome(mkdir(a, 0755));
  if (!strcmp(name, "read")) return outcome(open(a, O_RDONLY));
  if (!strcmp(name, "chmod")) return outcome(chmod(a, 0777));
  if (!strcmp(name, "chown")) return outcome(chown(a, 1, 1));
  if (!strcmp(name, "unlink")) return outcome(unlink(a));
  if (!strcmp(name, "truncate")) return outcome(truncate(a, 0));
  if (!strcmp(name, "setns")) return try_namespace(a);
  if (!strcmp(name, "memory")) return try_process_memory(a);
  if (!strcmp(name, "write")) return write_to(a, 0);
  if (!strcmp(name, "create")) return write_to(a, O_CREAT);
  if (!strcmp(name, "socket")) return try_socket(a);
  if (!strcmp(name, "family")) return try_family(atoi(a));
  if (!strcmp(name, "abstract")) return try_abstract(a);
  if (!strcmp(name, "roots")) return try_roots(a);
  return 2;
}

int main(int count, char** words) {
  const char* name = count > 1 ? words[1] : "";
  if (!strcmp(name, "handle")) return try_handle();
  if (!strcmp(name, "descriptors")) return try_descriptors();
  if (!strcmp(name, "mount_setattr")) return try_mount_attribute();
  if (!strcmp(name, "compat_mount")) return try_compat_mount();
  if (!strcmp(name, "privilege")) return try_privilege();
  if (!strcmp(name, "capabilities")) return try_capabilities();
  if (!strcmp(name, "link") && count > 3) return outcome(link(words[2], words[3]));
  if (!strcmp(name, "rename") && count > 3) return outcome(rename(words[2], words[3]));
  return try_call(name, count > 2 ? words[2] : "");
}
