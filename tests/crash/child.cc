#include "crash/child.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "base/check.h"

namespace warren::testing {
namespace {

void close_once(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments) {
  int input[2];
  int output[2];
  WARREN_CHECK(::pipe2(input, O_CLOEXEC) == 0 && ::pipe2(output, O_CLOEXEC) == 0);
  std::vector<std::string> words = {WARREN_CRASH_WRITER};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_ = ::fork();
  WARREN_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::dup2(input[0], STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::close(input[0]);
  ::close(output[1]);
  to_child_ = input[1];
  from_child_ = output[0];
}

Child::~Child() {
  kill();
  close_once(to_child_);
  close_once(from_child_);
}

std::optional<std::string> Child::read_line() {
  while (true) {
    if (std::size_t end = buffer_.find('\n'); end != buffer_.npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    char bytes[4096];
    ssize_t got = ::read(from_child_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    buffer_.append(bytes, static_cast<std::size_t>(got));
  }
}

void Child::kill() {
  if (status_ < 0) ::kill(pid_, SIGKILL);
  wait();
}

void Child::end_input() { close_once(to_child_); }

int Child::wait() {
  if (status_ >= 0) return status_;
  int raw = 0;
  while (::waitpid(pid_, &raw, 0) < 0) WARREN_CHECK(errno == EINTR);
  status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  return status_;
}

}  // namespace warren::testing
