#include "sandbox/terminal_state.h"

#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace warren {
namespace {

bool is_same_settings(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag &&
         std::memcmp(a.c_cc, b.c_cc, sizeof a.c_cc) == 0;
}

}  // namespace

TerminalState TerminalState::capture() {
  TerminalState state;
  for (int stream : {0, 1, 2}) {
    struct stat info {};
    bool is_terminal = ::isatty(stream) == 1 && ::fstat(stream, &info) == 0;
    if (!is_terminal) continue;
    state.nodes_[static_cast<std::size_t>(stream)] = info;
    state.flags_[static_cast<std::size_t>(stream)] = ::fcntl(stream, F_GETFL);
  }
  Fd terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  bool is_ours = terminal.is_open() && ::isatty(1) == 1 && ::tcgetpgrp(terminal.get()) == ::getpgrp();
  if (is_ours && ::tcgetattr(terminal.get(), &state.settings_) == 0) state.terminal_ = std::move(terminal);
  return state;
}

void TerminalState::restore() const {
  for (int stream : {0, 1, 2}) {
    const std::optional<struct stat>& before = nodes_[static_cast<std::size_t>(stream)];
    struct stat now {};
    if (!before || ::fstat(stream, &now) != 0) continue;
    bool is_same_owner = now.st_uid == before->st_uid && now.st_gid == before->st_gid;
    bool is_same_mode = (now.st_mode & 07777U) == (before->st_mode & 07777U);
    // If it fails, only root can repair it, and root caused it.
    if (!is_same_owner) static_cast<void>(::fchown(stream, before->st_uid, before->st_gid) == 0);
    if (!is_same_mode) static_cast<void>(::fchmod(stream, before->st_mode & 07777U) == 0);
    int flags = flags_[static_cast<std::size_t>(stream)];
    if (flags >= 0 && ::fcntl(stream, F_GETFL) != flags) ::fcntl(stream, F_SETFL, flags);
    ::ioctl(stream, TIOCNXCL);  // otherwise nobody could open it again
  }
  termios now{};
  bool is_changed = terminal_.is_open() && ::tcgetpgrp(terminal_.get()) == ::getpgrp() &&
                    ::tcgetattr(terminal_.get(), &now) == 0 && !is_same_settings(now, settings_);
  if (is_changed) ::tcsetattr(terminal_.get(), TCSADRAIN, &settings_);
}

}  // namespace warren
