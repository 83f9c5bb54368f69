// A crash writer as a child process: read its lines, kill it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace warren::testing {

// The destructor kills and reaps a child that is still running.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments);  // without the program's name
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The next line that it wrote, even after it was killed; nullopt if there are no more. An incomplete last line does
  // not count.
  std::optional<std::string> read_line();

  void kill();       // sends SIGKILL and waits for the end
  void end_input();  // closes its standard input
  int wait();        // its exit status, or 128 + the signal

 private:
  pid_t pid_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
  int status_ = -1;
  std::string buffer_;
};

}  // namespace warren::testing
