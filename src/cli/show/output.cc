#include "cli/show/output.h"

#include <cerrno>

#include <unistd.h>

#include "base/format_size.h"
#include "base/printable.h"
#include "os/error.h"
#include "os/processes/capture.h"
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

// Whoever has a small disk for temporary files learns how to choose another one.
constexpr const char* kHeldAway = "write the output to a temporary file (in $TMPDIR, or else in /tmp)";

constexpr std::string_view kPlainAgain = "\x1b[0m";

// The length of the colour code at the start of the text; 0 if there is none.
std::size_t colour_length(std::string_view text) {
  if (text.starts_with(kPlainAgain)) return kPlainAgain.size();
  for (Ink ink : {Ink::kBold, Ink::kRed, Ink::kGreen, Ink::kYellow, Ink::kBlue, Ink::kCyan}) {
    if (text.starts_with(code_of(ink))) return code_of(ink).size();
  }
  return 0;
}

}  // namespace

Output::Output(int fd, Colour colour, Stream stream)
    : fd_(fd),
      is_terminal_(warren::is_terminal(fd)),
      is_guarded_(is_terminal_ || stream == Stream::kMessages),
      colours_(is_terminal_ && colour == Colour::kOnTerminal),
      buffer_bytes_(stream == Stream::kMessages ? 1 : kBufferBytes) {}

void Output::write(std::string_view text) {
  if (is_guarded_) raw(guarded(text));
  else raw(text);
}

void Output::text(std::string_view text) {
  if (is_guarded_) raw(printable_text(text));
  else raw(text);
}

void Output::raw(std::string_view bytes) {
  if (!status_.ok()) return;
  buffer_ += bytes;
  if (buffer_.size() >= buffer_bytes_) flush();
}

void Output::line(std::string_view text) { write(std::string(text) + "\n"); }

// Escaped by JSON's own rules, so that it stays JSON on a terminal.
void Output::json(const Json& value) { raw(printable_json(dump_json_pretty(value)) + "\n"); }

void Output::json_line(const Json& value) { raw(printable_json(dump_json(value)) + "\n"); }

std::string Output::name(std::string_view bytes) const { return printable(bytes); }

std::string Output::exact_name(std::string_view bytes) const {
  return is_guarded_ ? printable(bytes) : std::string(bytes);
}

// Everything but our own colours.
std::string Output::guarded(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    std::size_t escape = colours_ ? text.find('\x1b') : text.npos;
    out += printable_text(text.substr(0, escape));
    if (escape == text.npos) break;
    text.remove_prefix(escape);
    std::size_t colour = colour_length(text);
    out += colour > 0 ? std::string(text.substr(0, colour)) : printable(text.substr(0, 1));
    text.remove_prefix(colour > 0 ? colour : 1);
  }
  return out;
}

std::size_t Output::columns() const {
  constexpr std::size_t kUsualColumns = 80;
  return is_terminal_ ? static_cast<std::size_t>(terminal_columns(fd_)) : kUsualColumns;
}

void Output::show_as(Zone zone, Sizes sizes) {
  zone_ = zone;
  sizes_ = sizes;
}

std::string Output::size(std::uint64_t bytes) const {
  return sizes_ == Sizes::kBytes ? std::to_string(bytes) : format_size(bytes);
}

std::string Output::paint(Ink ink, std::string_view text) const {
  if (!colours_ || ink == Ink::kPlain) return std::string(text);
  return fmt::format("{}{}{}", code_of(ink), text, kPlainAgain);
}

Status Output::finish() {
  if (status_.ok()) flush();
  return status_;
}

void Output::flush() {
  if (is_held_) write_held(buffer_);
  else write_out(buffer_);
  buffer_.clear();
}

void Output::write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      reader_is_gone_ = errno == EPIPE;
      status_ = system_error(errno, "write to standard output");
      break;
    }
  }
}

void Output::write_held(std::string_view bytes) {
  auto put = [&]() -> Status {
    if (!held_.is_open()) held_ = WARREN_TRY(open_scratch_file());
    return write_all(held_.get(), as_bytes(bytes));
  };
  status_ = put().within(kHeldAway);
}

void Output::hold() {
  flush();
  is_held_ = true;
}

Status Output::release() {
  if (held_.is_open() && status_.ok()) flush();
  is_held_ = false;
  Fd held = std::move(held_);
  if (!held.is_open()) return status_;
  if (status_.ok() && ::lseek(held.get(), 0, SEEK_SET) != 0) status_ = system_error(errno, "read a temporary file");
  std::string part(kBufferBytes, '\0');
  while (status_.ok()) {
    Result<std::size_t> count = read_full(held.get(), as_mutable_bytes(part)).within("read a temporary file");
    if (!count.ok()) status_ = std::move(count).take_error();
    if (!count.ok() || *count == 0) break;
    write_out(std::string_view(part).substr(0, *count));
  }
  return status_;
}

}  // namespace warren::cli
