// Whether a descriptor is a terminal, its size, and raw input.
#pragma once

#include <memory>

#include "base/result.h"

namespace warren {

bool is_terminal(int fd);
int terminal_columns(int fd);  // 80 if unknown
int terminal_rows(int fd);     // 24 if unknown

// Delivers keys as they are pressed, without echo and without signals. Restores the previous mode when destroyed.
class RawTerminal {
 public:
  static Result<RawTerminal> enter(int fd);
  RawTerminal(RawTerminal&& other) noexcept;
  RawTerminal& operator=(RawTerminal&&) = delete;
  ~RawTerminal();

 private:
  struct Before;
  RawTerminal(int fd, std::unique_ptr<Before> before);

  int fd_;
  std::unique_ptr<Before> before_;
};

}  // namespace warren
