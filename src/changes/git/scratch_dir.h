// A private temporary directory, in $TMPDIR or /tmp.
//
// The process that uses it holds a lock on a file in it. What an interrupted command has left there, up to all objects
// of an agent's repository, is removed by the next one that needs such a directory.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Removed by the destructor.
class ScratchDir {
 public:
  static Result<ScratchDir> make(std::string_view name);
  ScratchDir(ScratchDir&& other) noexcept : path_(std::exchange(other.path_, "")), lock_(std::move(other.lock_)) {}
  ScratchDir& operator=(ScratchDir&&) = delete;
  ~ScratchDir();

  const std::string& path() const { return path_; }

 private:
  ScratchDir(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  Fd lock_;
};

}  // namespace warren
