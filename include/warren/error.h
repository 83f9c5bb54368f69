// An error: a code for programs, a message for people, and optionally a hint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace warren {

// The kinds of failure a caller can act on. Each interface has one table that maps these to its own numbers (errno,
// exit status, HTTP, JSON-RPC). Never renumber: the values are part of the C ABI. Add at the end.
enum class Code : std::uint8_t {
  kInternal = 1,       // our own bug
  kInvalid = 2,        // the argument is invalid
  kNotFound = 3,       // it does not exist
  kExists = 4,         // it already exists
  kNotDirectory = 5,   // a directory was expected
  kIsDirectory = 6,    // it is a directory, and something else was expected
  kNotEmpty = 7,       // the directory still has entries
  kNameTooLong = 8,    // a name over 255 bytes or a path over 4096 bytes
  kLoop = 9,           // too many symbolic links
  kNoSpace = 10,       // disk or quota is full
  kTooLarge = 11,      // over the maximum size
  kReadOnly = 12,      // opened read-only, or of an older schema
  kNotPermitted = 13,  // never allowed, for any caller
  kDenied = 14,        // not allowed for this caller
  kBusy = 15,          // in use by someone else; try again
  kStale = 16,         // it existed, but no longer does
  kNoData = 17,        // no such attribute, or no data there
  kUnsupported = 18,   // this filesystem does not support that
  kCorrupt = 19,       // stored data is damaged or invalid
  kIo = 20,            // the disk or the system failed
  kConflict = 21,      // the current value is not the expected one
  kTooManyLinks = 22,
  kCrossDevice = 23,  // not within one filesystem
  kLimit = 24,        // a named limit was reached
  kTimeout = 25,
  kUnavailable = 26,  // a service we depend on does not answer
  kBadHandle = 27,    // the file is not open for this operation
  kRange = 28,        // the buffer is too small for the result
};

// The name of a code as programs see it: "not_found".
std::string_view name_of(Code code);

// Cheap to move: the state is one pointer, which also keeps Result small.
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
  // What the reader can do about it; may be empty.
  const std::string& hint() const { return state_->hint; }

  // Prefixes the message with what the caller was doing: "open 'a.db'" + "file is not a database".
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
