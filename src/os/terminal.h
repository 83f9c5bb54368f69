// Whether a person is looking, and how large their window is.
#pragma once

#include <memory>

#include "base/result.h"

namespace warren {

bool is_terminal(int fd);
int terminal_columns(int fd);  // 80 when it does not say
int terminal_rows(int fd);     // 24 when it does not say

// Keys come as they are pressed, unseen, and none of them makes a signal. As it was before when this goes.
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
