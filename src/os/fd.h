// An open file descriptor of the host, and reading and writing through one.
#pragma once

#include <cstddef>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace warren {

// Owns the descriptor and closes it when destroyed. Movable, not copyable.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }  // the caller closes it

 private:
  int number_ = -1;
};

// Does one read; returns 0 at the end of the file. Retries when interrupted.
Result<std::size_t> read_some(int fd, MutableBytes out);

// Reads until `out` is full or the file ends; returns the count.
Result<std::size_t> read_full(int fd, MutableBytes out);

Status write_all(int fd, Bytes data);

}  // namespace warren
