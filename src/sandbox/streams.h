// Standard streams that are files of the host, for a command that must not get access to the files.
//
// A process with a file open can change its mode, owner and times, however its path is protected. So the command gets a
// pipe instead, and our threads copy the bytes.
#pragma once

#include <array>
#include <thread>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

class FileStreams {
 public:
  // Checks streams 0 to 2. Those that are not regular files stay as they are. Two outputs to one file share a pipe, so
  // that their order is kept.
  static Result<FileStreams> prepare();
  FileStreams(FileStreams&&) = default;
  FileStreams& operator=(FileStreams&&) = delete;
  ~FileStreams();  // the file has everything that the command wrote

  void in_child() const;  // call before anything is closed
  void carry();           // in the parent, once the child exists

 private:
  struct Carried {
    int stream = 0;
    Fd ours;
    Fd theirs;
  };

  FileStreams() = default;

  std::vector<Carried> pipes_;
  std::array<int, 3> pipe_of_{-1, -1, -1};  // by stream: the index of its pipe
  Fd ended_;                                // readable when the command has ended
  std::vector<std::thread> threads_;
};

}  // namespace warren
