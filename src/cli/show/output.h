// Standard output and standard error, as commands use them.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/result.h"

namespace warren::cli {

enum class Colour { kNever, kOnTerminal };
enum class Buffering { kNone, kLarge };  // kNone: for messages, which must appear at once
enum class Ink { kPlain, kBold, kRed, kGreen, kYellow, kBlue, kCyan };

// A write error is kept and returned by finish(). Commands with much output check status() now and then, so that
// they stop early.
class Output {
 public:
  Output(int fd, Colour colour, Buffering buffering);

  void write(std::string_view text);
  void line(std::string_view text);
  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    write(fmt::format(format, std::forward<Values>(values)...));
  }
  void json(const Json& value);  // indented, with a line end

  // A name as it may be shown: raw, but with control characters escaped if this is a terminal.
  std::string name(std::string_view bytes) const;
  std::string paint(Ink ink, std::string_view text) const;

  bool is_terminal() const { return is_terminal_; }
  bool reader_is_gone() const { return reader_is_gone_; }  // the pipe was closed
  Status status() const { return status_; }
  Status finish();

 private:
  void flush();

  int fd_;
  bool is_terminal_;
  bool colours_;
  std::size_t buffer_bytes_;
  bool reader_is_gone_ = false;
  std::string buffer_;
  Status status_ = Ok{};
};

}  // namespace warren::cli
