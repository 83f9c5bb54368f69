// Standard streams that are files of the host, for a command that must not get hold of them.
//
// Whoever has a file open can change its mode, owner and times, whatever walls there are around its path. So a
// command gets a pipe instead, and threads of ours carry the bytes.
#pragma once

#include <array>
#include <thread>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

class FileStreams {
 public:
  // Looks at streams 0 to 2. Those that are no regular files stay as they are. Two outputs to one file share a pipe,
  // so that their order stays.
  static Result<FileStreams> prepare();
  FileStreams(FileStreams&&) = default;
  FileStreams& operator=(FileStreams&&) = delete;
  ~FileStreams();  // what the command has written is in the file

  void in_child() const;  // before anything is closed
  void carry();           // in the parent, once the child is there

 private:
  struct Carried {
    int stream = 0;
    Fd ours;
    Fd theirs;
  };

  FileStreams() = default;

  std::vector<Carried> pipes_;
  std::array<int, 3> pipe_of_{-1, -1, -1};  // by stream: which of them it has
  Fd ended_;                                // readable when the command is over
  std::vector<std::thread> threads_;
};

}  // namespace warren
