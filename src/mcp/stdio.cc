#include "mcp/stdio.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "mcp/session.h"
#include "os/error.h"
#include "os/fd.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kPipePiece = 4096;  // what a pipe takes without blocking once poll() says that it takes something
// Beyond these, reading waits: a client cannot fill our memory with requests.
constexpr std::size_t kRunningMax = 256;
constexpr std::size_t kRunningBytesMax = std::size_t{64} << 20;  // one message may come on top
constexpr std::chrono::seconds kEndPatience{2};                  // for a client that does not read, once we are to end

// Writes lines. A client that stops reading makes writers wait, until the server is to end or the client has closed
// the input.
class LineWriter final : public Outlet {
 public:
  explicit LineWriter(const StdioOptions& options)
      : fd_(options.output), stop_fd_(options.stop_fd), input_(options.input), patience_(options.unread_patience) {
    struct stat node {};
    is_socket_ = ::fstat(fd_, &node) == 0 && S_ISSOCK(node.st_mode);
  }

  void send(const Json& message) override {
    std::string line = dump_json(message);
    line += '\n';
    std::lock_guard lock(mutex_);
    if (!is_broken_) is_broken_ = !write(line);
  }

  bool is_broken() const { return is_broken_; }

 private:
  using Steady = std::chrono::steady_clock;

  // poll() before every piece, so that nothing blocks for ever whatever kind of file it is.
  bool write(std::string_view rest) {
    std::optional<Steady::time_point> deadline;
    bool is_stopping = false;
    bool has_ended = false;  // the input; without events poll() reports just that
    while (!rest.empty()) {
      pollfd waited[3] = {{fd_, POLLOUT, 0}, {is_stopping ? -1 : stop_fd_, POLLIN, 0}, {has_ended ? -1 : input_, 0, 0}};
      int timeout =
          deadline ? static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*deadline - Steady::now()).count())
                   : -1;
      if (deadline && timeout <= 0) return false;
      int ready = ::poll(waited, 3, timeout);
      if (ready < 0 && errno != EINTR) return false;
      if (ready <= 0) continue;
      has_ended = has_ended || waited[2].revents != 0;
      if (waited[2].revents != 0 && !is_stopping) deadline = Steady::now() + patience_;
      if (waited[1].revents != 0) deadline = Steady::now() + kEndPatience;
      is_stopping = is_stopping || waited[1].revents != 0;
      if ((waited[0].revents & (POLLERR | POLLNVAL)) != 0) return false;
      if ((waited[0].revents & (POLLOUT | POLLHUP)) == 0) continue;
      ssize_t done = is_socket_ ? ::send(fd_, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                                : ::write(fd_, rest.data(), std::min(rest.size(), kPipePiece));
      if (done < 0 && errno != EINTR && errno != EAGAIN) return false;
      if (done > 0) rest.remove_prefix(static_cast<std::size_t>(done));
      if (done > 0 && has_ended && !is_stopping) deadline = Steady::now() + patience_;
    }
    return true;
  }

  int fd_;
  int stop_fd_;
  int input_;
  std::chrono::milliseconds patience_;
  bool is_socket_ = false;
  std::mutex mutex_;
  std::atomic<bool> is_broken_ = false;  // set under mutex_
};

// Splits what arrives into lines.
class LineReader {
 public:
  explicit LineReader(const StdioOptions& options) : options_(options) {}

  enum class Got { kLine, kTooLong, kEnd, kStop };
  // Waits for the next line. A line without an end, before the end of input, is one, too.
  Result<Got> next(std::string& line) {
    for (;;) {
      if (std::optional<Got> got = take(line)) return *got;
      if (is_at_end_) return Got::kEnd;
      pollfd waited[2] = {{options_.input, POLLIN, 0}, {options_.stop_fd, POLLIN, 0}};
      int ready = ::poll(waited, 2, -1);
      if (ready < 0 && errno != EINTR) return system_error(errno, "wait for input");
      if (ready <= 0) continue;
      if (waited[1].revents != 0) return Got::kStop;
      std::size_t before = buffer_.size();
      buffer_.resize(before + kReadBytes);
      Result<std::size_t> got =
          read_some(options_.input, as_mutable_bytes(buffer_).subspan(before, kReadBytes)).within("read the input");
      buffer_.resize(before + (got.ok() ? *got : 0));
      if (!got.ok()) return std::move(got).take_error();
      is_at_end_ = *got == 0;
    }
  }

 private:
  std::optional<Got> take(std::string& line) {
    std::size_t end = buffer_.find('\n', looked_at_);
    if (end == buffer_.npos) {
      looked_at_ = buffer_.size();
      if (buffer_.size() > options_.line_bytes_max || is_skipping_) drop_start();
      if (!is_at_end_ || buffer_.empty()) return std::nullopt;
      end = buffer_.size();
    }
    bool is_too_long = is_skipping_ || end > options_.line_bytes_max;
    line.assign(buffer_, 0, is_too_long ? 0 : end);
    buffer_.erase(0, std::min(buffer_.size(), end + 1));
    looked_at_ = 0;
    is_skipping_ = false;
    return is_too_long ? Got::kTooLong : Got::kLine;
  }

  void drop_start() {
    is_skipping_ = true;
    buffer_.clear();
    buffer_.shrink_to_fit();
    looked_at_ = 0;
  }

  const StdioOptions& options_;
  std::string buffer_;
  std::size_t looked_at_ = 0;  // no line end before this
  bool is_skipping_ = false;   // the rest of a line that is too long
  bool is_at_end_ = false;
};

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == line.npos; }

Result<LineReader::Got> serve_lines(LineReader& reader, Session& session, const std::shared_ptr<LineWriter>& writer,
                                    std::size_t line_bytes_max) {
  std::string line;
  for (;;) {
    session.wait_for_room(kRunningMax, kRunningBytesMax);
    LineReader::Got got = WARREN_TRY(reader.next(line));
    if (got == LineReader::Got::kEnd || got == LineReader::Got::kStop || writer->is_broken()) return got;
    if (got == LineReader::Got::kTooLong) {
      writer->send(error_message(nullptr, {.code = kInvalidRequest,
                                           .message = fmt::format("a message has at most {} bytes", line_bytes_max)}));
      continue;
    }
    if (!is_blank(line)) session.receive(line, writer);
  }
}

// Nobody reads the output any more. Without events poll() reports just that.
bool has_no_reader(int output) {
  pollfd reader{output, 0, 0};
  return ::poll(&reader, 1, 0) > 0 && (reader.revents & (POLLERR | POLLHUP)) != 0;
}

// What came before the end of the input is answered, unless the server is to end at once. A command does not keep it:
// it gets a moment, if somebody still reads.
void wait_for_answers(Session& session, const StdioOptions& options) {
  constexpr std::chrono::milliseconds kLook{100};
  auto end_of_commands = std::chrono::steady_clock::now() + options.command_patience;
  while (!session.wait_until_fewer_than(1, kLook)) {
    pollfd stop{options.stop_fd, POLLIN, 0};
    if (options.stop_fd >= 0 && ::poll(&stop, 1, 0) > 0) session.cancel_all();
    bool is_time = std::chrono::steady_clock::now() >= end_of_commands;
    if (is_time || has_no_reader(options.output)) session.cancel_commands();
  }
}

}  // namespace

Status serve_stdio(Service& service, const StdioOptions& options) {
  auto writer = std::make_shared<LineWriter>(options);  // shared with what still answers
  Subscriptions subscriptions(service);
  CallThreads calls(options.threads, Service::kLongCallsMax);
  Session session(service, subscriptions,
                  {.run = [&](CallKind kind, std::function<void()> call) { return calls.run(kind, std::move(call)); },
                   .notices = writer});
  LineReader reader(options);
  Result<LineReader::Got> served = serve_lines(reader, session, writer, options.line_bytes_max);
  session.end_subscriptions();
  if (!served.ok() || *served == LineReader::Got::kStop || writer->is_broken()) session.cancel_all();
  wait_for_answers(session, options);
  calls.stop();
  if (!served.ok()) return std::move(served).take_error();
  return Ok{};
}

}  // namespace warren::mcp
