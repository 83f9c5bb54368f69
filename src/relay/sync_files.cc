#include "relay/sync_files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>

#include "os/error.h"

namespace warren::relay {
namespace {

constexpr std::size_t kThreads = 8;  // more gave nothing

}  // namespace

Status sync_files(std::span<const int> files) {
  std::atomic<std::size_t> next = 0;
  std::atomic<int> failed = 0;
  auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      if (::fsync(files[i]) != 0) failed = errno;
    }
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < std::min(kThreads, files.size())) others.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are, and this one, do it.
  }
  work();
  for (std::thread& thread : others) thread.join();
  if (failed != 0) return system_error(failed, "sync");
  return Ok{};
}

}  // namespace warren::relay
