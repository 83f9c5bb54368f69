// Questions that were the result of a call (from 2026-07-28 on), until the call that brings the answer.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace warren::mcp {

// Thread-safe. The oldest are dropped at a limit, and after a restart there are none: then the user is asked again.
class OpenQuestions {
 public:
  static constexpr std::size_t kOpenMax = 1000;

  // Keeps a question, by a hash of all that it is about. Returns the requestState for it.
  std::string add(std::string hash);
  // Whether that is the state of this question. Only the first answer to it counts.
  bool take(std::string_view state, std::string_view hash);

 private:
  struct Open {
    std::string state;
    std::string hash;
  };
  std::mutex mutex_;
  std::deque<Open> open_;  // under mutex_; oldest first
};

}  // namespace warren::mcp
