// Notices that HEAD of the project's git repository moves while a session runs.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "os/files/dir_watch.h"

namespace warren {

// For one thread. Git moves HEAD last, in one of several files. So anything that happens at the top of `.git` makes it
// look at HEAD, and again for a while.
class ProjectWatch {
 public:
  // Null if the base has no directory `.git`, or it cannot be watched.
  static std::unique_ptr<ProjectWatch> start(const std::string& base, Agent& agent);

  int fd() const { return watch_.fd(); }  // readable when something happened
  // How long to wait, at most, until has_moved() must be called again. `otherwise`: what the caller would wait; -1: for
  // ever.
  int patience_ms(int otherwise) const;
  // Whether HEAD is another commit than the one that was followed last.
  bool has_moved(Agent& agent);
  void set_followed();  // that commit; otherwise has_moved() says so again

 private:
  ProjectWatch(DirWatch watch, std::string commit) : watch_(std::move(watch)), followed_(std::move(commit)) {}

  DirWatch watch_;
  std::string followed_;
  std::string commit_;
  std::chrono::steady_clock::time_point look_until_;
};

}  // namespace warren
