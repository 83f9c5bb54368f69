#include "sandbox/streams.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/error.h"
#include "os/pipe.h"

namespace warren {
namespace {

constexpr std::size_t kCarriedBytes = 65'536;  // the capacity of a pipe

// It is not an error if the command does not read everything or has ended: the rest is not needed.
void carry_in(int file, int pipe, int ended) {
  std::string bytes(kCarriedBytes, '\0');
  for (;;) {
    Result<std::size_t> got = read_some(file, as_mutable_bytes(bytes));
    if (!got.ok() || *got == 0) return;
    std::size_t done = 0;
    while (done < *got) {
      std::array<pollfd, 2> wait{pollfd{pipe, POLLOUT, 0}, pollfd{ended, POLLIN, 0}};
      if (::poll(wait.data(), wait.size(), -1) < 0 && errno == EINTR) continue;
      if (wait[1].revents != 0) return;
      ssize_t written = ::write(pipe, bytes.data() + done, *got - done);
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (written < 0) return;
      done += static_cast<std::size_t>(written);
    }
  }
}

// Copies until there is no writer left, or the command has ended and everything it wrote is copied.
void carry_out(int pipe, int file, int ended) {
  std::string bytes(kCarriedBytes, '\0');
  bool is_over = false;
  for (;;) {
    std::array<pollfd, 2> wait{pollfd{pipe, POLLIN, 0}, pollfd{ended, POLLIN, 0}};
    nfds_t count = is_over ? 1 : 2;
    int ready = ::poll(wait.data(), count, is_over ? 0 : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return;
    if (!is_over && wait[1].revents != 0) is_over = true;
    if (wait[0].revents == 0) continue;
    Result<std::size_t> got = read_some(pipe, as_mutable_bytes(bytes));
    if (!got.ok() || *got == 0) return;
    if (!write_all(file, as_bytes(std::string_view(bytes).substr(0, *got))).ok()) return;  // the command gets EPIPE
  }
}

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

}  // namespace

Result<FileStreams> FileStreams::prepare() {
  FileStreams streams;
  std::array<struct stat, 3> files{};
  for (int stream : {0, 1, 2}) {
    struct stat& info = files[static_cast<std::size_t>(stream)];
    if (::fstat(stream, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    int& chosen = streams.pipe_of_[static_cast<std::size_t>(stream)];
    if (stream == 2 && streams.pipe_of_[1] >= 0 && is_same_file(files[1], info)) {
      chosen = streams.pipe_of_[1];
      continue;
    }
    Pipe pipe = WARREN_TRY(open_pipe());
    chosen = static_cast<int>(streams.pipes_.size());
    Fd& ours = stream == 0 ? pipe.writer : pipe.reader;
    Fd& theirs = stream == 0 ? pipe.reader : pipe.writer;
    if (stream == 0) ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    streams.pipes_.push_back({stream, std::move(ours), std::move(theirs)});
  }
  streams.ended_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!streams.ended_.is_open()) return system_error(errno, "eventfd");
  return streams;
}

void FileStreams::in_child() const {
  for (int stream : {0, 1, 2}) {
    int chosen = pipe_of_[static_cast<std::size_t>(stream)];
    if (chosen >= 0) ::dup2(pipes_[static_cast<std::size_t>(chosen)].theirs.get(), stream);
  }
}

void FileStreams::carry() {
  sigset_t pipe_signal;
  sigset_t before;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal,
                    &before);  // inherited by the threads: a command may end without reading everything
  for (Carried& one : pipes_) {
    one.theirs = Fd();
    int ended = ended_.get();
    if (one.stream == 0) {
      threads_.emplace_back([pipe = std::move(one.ours), ended] { carry_in(0, pipe.get(), ended); });
    } else {
      threads_.emplace_back(
          [pipe = std::move(one.ours), file = one.stream, ended] { carry_out(pipe.get(), file, ended); });
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FileStreams::~FileStreams() {
  if (ended_.is_open()) ::eventfd_write(ended_.get(), 1);
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace warren
