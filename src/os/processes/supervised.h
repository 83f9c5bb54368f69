// Runs another program with limits on its time and output, for a caller that another thread can stop.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

// What the program gets when the thread that started it ends, in any way.
enum class AtOurEnd { kTerminate, kKill };

struct Supervision {
  std::chrono::milliseconds timeout{};
  std::chrono::milliseconds grace{2000};            // between SIGTERM and SIGKILL
  std::size_t output_bytes_max = 0;                 // of each stream; what comes after it is read and dropped
  const std::atomic<bool>* is_cancelled = nullptr;  // looked at ten times a second
  AtOurEnd at_our_end = AtOurEnd::kTerminate;
};

enum class EndedBy { kItself, kTimeout, kCancelled };

struct Supervised {
  int status = 0;  // as run_child returns it
  std::string output;
  std::string errors;
  bool is_cut = false;  // there was more of one of the two
  EndedBy ended_by = EndedBy::kItself;
};

// Starts `words` (the first is a path) in `dir`, without input, in a process group of its own, and waits. A process
// that it leaves behind with our pipes is waited for no longer than the grace.
Result<Supervised> run_supervised(const std::vector<std::string>& words, const std::string& dir,
                                  const Supervision& limits);

}  // namespace warren
