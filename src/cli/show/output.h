// Standard output and standard error, as commands use them.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/syntax/values.h"
#include "os/fd.h"

namespace warren::cli {

enum class Colour { kNever, kOnTerminal };
enum class Stream { kData, kMessages };  // messages appear at once, and are always printable
enum class Sizes { kForPeople, kBytes };
enum class Ink { kPlain, kBold, kRed, kGreen, kYellow, kBlue, kCyan };

// On a terminal, and in messages wherever they go, text is made printable (base/printable.h) except for line ends, tabs
// and colours from paint(): whatever a command forgets to escape cannot control the terminal. Only raw() writes bytes
// as they are. Names need name() all the same, because a line end in a name could pretend to be the next line.
//
// A write error is kept and returned by finish(). Commands with much output check status() now and then, so that
// they stop early.
class Output {
 public:
  Output(int fd, Colour colour, Stream stream);

  void write(std::string_view text);
  void line(std::string_view text);
  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    write(fmt::format(format, std::forward<Values>(values)...));
  }
  void json(const Json& value);       // indented, with a line end
  void json_line(const Json& value);  // in one line
  void text(std::string_view text);   // of somebody else: as write(), but colours do not pass either
  void raw(std::string_view bytes);   // the content of a file, or a screen that we draw

  // A name within a line, for people: always printable, so that no name can pretend to be a line of ours, wherever the
  // output is read.
  std::string name(std::string_view bytes) const;
  // A name in a list for programs: as it is, but printable on a terminal.
  std::string exact_name(std::string_view bytes) const;
  std::string paint(Ink ink, std::string_view text) const;

  // Times and sizes, as the user wants to see them (--utc, --bytes). JSON has neither.
  void show_as(Zone zone, Sizes sizes);
  Zone zone() const { return zone_; }
  std::string time(std::int64_t seconds) const { return format_time(seconds, zone_); }
  std::string time_full(Timestamp time) const { return format_time_full(time, zone_); }
  std::string size(std::uint64_t bytes) const;  // "1.5 MiB" or "1572864"

  std::size_t columns() const;  // of the terminal; 80 if it is none
  bool is_terminal() const { return is_terminal_; }
  bool reader_is_gone() const { return reader_is_gone_; }  // the pipe was closed
  Status status() const { return status_; }
  void flush();  // before something is written to another output that belongs after it
  // From now on, everything goes to a scratch file, until release() writes it: for what is read in a transaction, which
  // must not last as long as a slow reader takes. Released without an error only if the file took everything.
  void hold();
  Status release();
  Status finish();

 private:
  std::string guarded(std::string_view text) const;
  void write_out(std::string_view bytes);  // to whatever the descriptor leads to
  void write_held(std::string_view bytes);

  int fd_;
  bool is_terminal_;
  bool is_guarded_;
  bool colours_;
  std::size_t buffer_bytes_;
  Zone zone_ = Zone::kUtc;
  Sizes sizes_ = Sizes::kForPeople;
  bool reader_is_gone_ = false;
  std::string buffer_;
  bool is_held_ = false;
  Fd held_;  // open from the first full buffer on
  Status status_ = Ok{};
};

}  // namespace warren::cli
