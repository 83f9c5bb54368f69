// The settings and the permissions of the user's terminal, which a command inside can change: it has the terminal open.
#pragma once

#include <array>
#include <optional>

#include <sys/stat.h>
#include <termios.h>

#include "os/fd.h"

namespace warren {

class TerminalState {
 public:
  // Of streams 0 to 2, and of the terminal if we are its foreground job. In a pipeline such as `warren run … | less`
  // the settings belong to the other program.
  static TerminalState capture();

  // Restores what differs. Call it when nothing inside can change it again.
  void restore() const;

 private:
  std::array<std::optional<struct stat>, 3> nodes_;
  std::array<int, 3> flags_{-1, -1, -1};  // of the open files, which are shared with whoever started us
  Fd terminal_;                           // closed if the settings are not ours
  termios settings_{};
};

}  // namespace warren
