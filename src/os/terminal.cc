#include "os/terminal.h"

#include <cerrno>

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "os/error.h"

namespace warren {

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

int terminal_columns(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

int terminal_rows(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) return size.ws_row;
  return 24;
}

struct RawTerminal::Before {
  termios mode{};
};

RawTerminal::RawTerminal(int fd, std::unique_ptr<Before> before) : fd_(fd), before_(std::move(before)) {}
RawTerminal::RawTerminal(RawTerminal&& other) noexcept = default;

Result<RawTerminal> RawTerminal::enter(int fd) {
  auto before = std::make_unique<Before>();
  if (::tcgetattr(fd, &before->mode) != 0) return system_error(errno, "get the terminal's mode");
  termios raw = before->mode;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(fd, TCSAFLUSH, &raw) != 0) return system_error(errno, "set the terminal's mode");
  return RawTerminal(fd, std::move(before));
}

RawTerminal::~RawTerminal() {
  if (before_ != nullptr) ::tcsetattr(fd_, TCSAFLUSH, &before_->mode);
}

}  // namespace warren
