// Running a program that reads a stranger's bytes, and may be taken over by them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/processes/capture.h"

namespace warren {

struct ConfinedLimits {
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  std::uint64_t output_bytes = std::uint64_t{64} << 20;
  std::chrono::seconds time{60};  // of a processor, and of the clock
  std::uint64_t files = 64;       // open at once
};

// Starts `words` (found by PATH) with `input` as its standard input, and waits, as run_captured does. The program
//   - gets no environment but PATH and LANG, and no descriptor but its three streams;
//   - has these limits, and cannot start another process;
//   - has no sockets, cannot look into or signal other processes, and cannot gain rights (seccomp, no_new_privs);
//   - can read only the system's programs, libraries and fonts, and write nothing (Landlock, from Linux 5.13 on),
//     nor change the length, mode, owner, times or attributes of a file (seccomp);
//   - is in namespaces of its own, where the system allows them, and is nobody if we are root.
// kNotFound: there is no such program. kTimeout. kUnsupported: the kernel has no seccomp.
Result<Captured> run_confined(const std::vector<std::string>& words, int input, const ConfinedLimits& limits = {});

}  // namespace warren
