// Tells the processes of one run from those of the other runs of a session, and ends them.
//
// The mark is a UTS namespace: everything that a marked process starts is in it too, whatever its parent, group or
// session, and no command can leave it (syscall_filter refuses new namespaces). It shows the host's name as before.
// docs/design/sandbox.md, The end of one run.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Marks this process and all that it starts from now on. Needs the privileges of the sandbox's user namespace, and a
// /proc that shows this process.
Result<Fd> mark_this_process();

// Sends SIGKILL to every process with this mark that /proc shows. Returns how many there were.
std::size_t kill_marked(int mark);

// Ends runs, in the sandbox's first process. It works in rounds, between which the caller does other things: a process
// that forks while /proc is read is found in the next round.
class RunEnder {
 public:
  // `done` is closed when nothing with this mark is left; it may be closed already.
  void add(Fd mark, Fd done);

  int patience_ms() const;  // until the next round is due; -1: there is nothing to do
  void work();

 private:
  struct Ending {
    Fd mark;
    Fd done;
    int rounds = 0;
    int empty_rounds = 0;  // in succession, in which nothing was found
  };

  std::vector<Ending> endings_;
};

}  // namespace warren
