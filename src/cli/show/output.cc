#include "cli/show/output.h"

#include <cerrno>

#include <unistd.h>

#include "cli/show/text.h"
#include "os/error.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

constexpr std::size_t kBufferBytes = 65536;

std::string_view code_of(Ink ink) {
  switch (ink) {
    case Ink::kPlain: return "";
    case Ink::kBold: return "\x1b[1m";
    case Ink::kRed: return "\x1b[31m";
    case Ink::kGreen: return "\x1b[32m";
    case Ink::kYellow: return "\x1b[33m";
    case Ink::kBlue: return "\x1b[34m";
    case Ink::kCyan: return "\x1b[36m";
  }
  return "";
}

}  // namespace

Output::Output(int fd, Colour colour, Buffering buffering)
    : fd_(fd),
      is_terminal_(warren::is_terminal(fd)),
      colours_(is_terminal_ && colour == Colour::kOnTerminal),
      buffer_bytes_(buffering == Buffering::kNone ? 1 : kBufferBytes) {}

void Output::write(std::string_view text) {
  if (!status_.ok()) return;
  buffer_ += text;
  if (buffer_.size() >= buffer_bytes_) flush();
}

void Output::line(std::string_view text) { write(std::string(text) + "\n"); }

void Output::json(const Json& value) { line(dump_json_pretty(value)); }

std::string Output::name(std::string_view bytes) const { return is_terminal_ ? printable(bytes) : std::string(bytes); }

std::string Output::paint(Ink ink, std::string_view text) const {
  if (!colours_ || ink == Ink::kPlain) return std::string(text);
  return fmt::format("{}{}\x1b[0m", code_of(ink), text);
}

Status Output::finish() {
  if (status_.ok()) flush();
  return status_;
}

void Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    ssize_t count = ::write(fd_, rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      reader_is_gone_ = errno == EPIPE;
      status_ = system_error(errno, "write to standard output");
      break;
    }
  }
  buffer_.clear();
}

}  // namespace warren::cli
