// What went wrong: a code for programs, a message for people, and where it helps a hint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace warren {

// The kinds of failure a caller can act on. Each edge has one table from these to its own numbers
// (errno, exit status, HTTP, JSON-RPC); no other place makes up a code. Never renumber: the C ABI
// hands these values out. Add at the end.
enum class Code : std::uint8_t {
  kInternal = 1,       // our own bug
  kInvalid = 2,        // the argument makes no sense
  kNotFound = 3,       // there is no such thing
  kExists = 4,         // there is one already
  kNotDirectory = 5,   // a directory was needed
  kIsDirectory = 6,    // a directory was given
  kNotEmpty = 7,       // the directory still has entries
  kNameTooLong = 8,    // over 255 bytes for a name or 4096 for a path
  kLoop = 9,           // too many symbolic links
  kNoSpace = 10,       // disk or quota is full
  kTooLarge = 11,      // beyond the largest size we store
  kReadOnly = 12,      // opened for reading, or an old schema
  kNotPermitted = 13,  // never allowed, whoever asks
  kDenied = 14,        // not allowed for you
  kBusy = 15,          // someone else holds it; try again
  kStale = 16,         // it existed, and is gone
  kNoData = 17,        // no such attribute, or no data there
  kUnsupported = 18,   // this filesystem does not do that
  kCorrupt = 19,       // a row or a file is not what it must be
  kIo = 20,            // the disk or the system failed
  kConflict = 21,      // the value is not what you expected
  kTooManyLinks = 22,
  kCrossDevice = 23,  // not within one filesystem
  kLimit = 24,        // a named limit was reached
  kTimeout = 25,
  kUnavailable = 26,  // something we depend on does not answer
  kBadHandle = 27,    // the file is not open for this
  kRange = 28,        // the buffer is too small for the answer
};

// The name of a code as programs see it: "not_found".
std::string_view name_of(Code code);

// A failure. Cheap to move; the whole state is one pointer, so that a Result stays small.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message);
  Error(Code code, std::string message, std::string hint);

  Error(const Error& other);
  Error& operator=(const Error& other);
  Error(Error&&) noexcept = default;
  Error& operator=(Error&&) noexcept = default;
  ~Error() = default;

  Code code() const { return state_->code; }
  const std::string& message() const { return state_->message; }
  // What the reader can do about it; empty when there is nothing to say.
  const std::string& hint() const { return state_->hint; }

  // Says what the caller was doing: "open 'a.db'" + "file is not a database". Changes this error.
  Error&& within(std::string_view what) &&;
  Error&& with_hint(std::string_view hint) &&;

 private:
  struct State {
    Code code;
    std::string message;
    std::string hint;
  };
  std::unique_ptr<State> state_;
};

}  // namespace warren
