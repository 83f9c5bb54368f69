// System calls for the mount's benchmarks: a failure ends the program with a message, and content differs each time,
// because SQLite skips writing unchanged data.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace bench {

inline constexpr std::size_t kPageBytes = 4096;

inline void must(bool worked, const char* what) {
  if (worked) return;
  std::perror(what);
  std::exit(1);
}

// A descriptor that closes itself.
class Fd {
 public:
  Fd(const std::string& path, int flags, mode_t mode = 0644) : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
    must(fd_ >= 0, path.c_str());
  }
  ~Fd() { ::close(fd_); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

class Random {
 public:
  Random() = default;
  explicit Random(std::uint64_t seed) : x_(seed | 1) {}
  std::uint64_t next() {
    x_ ^= x_ << 13;
    x_ ^= x_ >> 7;
    x_ ^= x_ << 17;
    return x_;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t x_ = 0x9E3779B97F4A7C15ULL;
};

// Bytes to write. `changed` makes every page of them unique, at almost no cost.
class Content {
 public:
  explicit Content(std::size_t bytes) : bytes_(bytes, '\0') {
    for (std::size_t i = 0; i + 8 <= bytes; i += 8) stamp(i);
  }
  const std::string& changed() {
    for (std::size_t i = 0; i + 8 <= bytes_.size(); i += kPageBytes) stamp(i);
    return bytes_;
  }

 private:
  void stamp(std::size_t at) {
    std::uint64_t value = random_.next();
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }

  std::string bytes_;
  Random random_;
};

inline void write_all(int fd, const std::string& content) {
  must(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()), "write");
}

inline void put(const std::string& path, const std::string& content) {
  write_all(Fd(path, O_CREAT | O_TRUNC | O_WRONLY).get(), content);
}

inline std::vector<std::string> names(const char* prefix, std::size_t count) {
  std::vector<std::string> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(fmt::format("{}{}", prefix, i));
  return made;
}

inline void enter_new_dir(const std::string& path) {
  must(::mkdir(path.c_str(), 0755) == 0 && ::chdir(path.c_str()) == 0, path.c_str());
}

// What drop_caches drops. A filesystem's own memory is not affected.
enum class Caches { kEntries, kEntriesAndPages };

inline void drop(Caches caches) {
  ::sync();  // dirty pages and inodes are never dropped
  Fd control("/proc/sys/vm/drop_caches", O_WRONLY);
  write_all(control.get(), caches == Caches::kEntries ? "2" : "3");
  ::usleep(10'000);  // a mount is notified of forgotten inodes later; that must not count for the next call
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace bench
