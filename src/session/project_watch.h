// Notices that HEAD of the project's git repository moves while a session runs.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "changes/pinned/linked_worktree.h"
#include "os/files/dir_watch.h"

namespace warren {

// For one thread. Git moves HEAD last, in one of several files. So anything that happens at the top of `.git` makes it
// look at HEAD, and again for a while.
class ProjectWatch {
 public:
  // Call it before the session is made to follow HEAD. Null if the base is not the top of a repository, linked worktree
  // or submodule, or cannot be watched.
  static std::unique_ptr<ProjectWatch> start(const std::string& base);

  int fd() const { return watch_.fd(); }  // readable when something happened
  // How long to wait, at most, until has_moved() must be called again. `otherwise`: what the caller would wait; -1: for
  // ever.
  int patience_ms(int otherwise) const;
  // Whether HEAD is another commit than the one that was followed last.
  bool has_moved();
  void set_followed();  // that commit
  void put_off();       // has_moved() says so again later, each time after a longer while

 private:
  using Moment = std::chrono::steady_clock::time_point;

  ProjectWatch(DirWatch watch, LinkedWorktree git) : watch_(std::move(watch)), git_(std::move(git)) {}

  // Of HEAD; "" if it is not known.
  std::string find_commit() const;

  DirWatch watch_;
  LinkedWorktree git_;  // of an ordinary repository both are `.git`
  std::string followed_;
  std::string commit_;
  Moment look_until_;
  Moment not_before_;  // after a failure
  std::chrono::milliseconds put_off_{0};
};

}  // namespace warren
