// The messages between a host and its clients: a JSON object and, after it, bytes.
//
// A frame is the length of the JSON and the length of the bytes (each four bytes, the highest first), the JSON, the
// bytes. docs/design/trust.md has the requests and answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "os/fd.h"

namespace warren {

inline constexpr std::size_t kFrameHeadBytes = std::size_t{64} << 10;
inline constexpr std::size_t kFrameBodyBytes = std::size_t{64} << 20;
inline constexpr int kHostProtocol = 1;

struct Frame {
  Json head = Json::object();
  std::string body;
};

// One side of a connection. For one thread, except interrupt().
class FrameSocket {
 public:
  using Milliseconds = std::chrono::milliseconds;
  explicit FrameSocket(Fd socket) : socket_(std::move(socket)) {}

  struct ReadLimits {
    std::size_t head_bytes = kFrameHeadBytes;
    std::size_t body_bytes = kFrameBodyBytes;
    std::optional<Milliseconds> first_byte{};  // nullopt: as long as it takes
    Milliseconds rest{30'000};                 // from then on, for the whole frame
    // Called before the bytes are read, with their number; may refuse them. Null: all are taken.
    std::function<Status(std::size_t)> admit{};
  };
  // nullopt: the other side closed the connection between two frames. kTimeout; kTooLarge; kInvalid: what came is not a
  // frame. After an error the connection cannot be used for reading any more.
  Result<std::optional<Frame>> read(const ReadLimits& limits);

  // kTimeout if the other side does not take it in time; then part of it may have been sent.
  Status write(const Json& head, std::string_view body, Milliseconds at_most);

  // Ends a read() that waits in another thread, now and later: as if the other side had closed. What is being answered
  // still can be.
  void interrupt();
  void close_both();  // also ends a write()

  int fd() const { return socket_.get(); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Fills `out`; returns false if the other side closed before its first byte.
  Result<bool> read_exactly(MutableBytes out, std::optional<TimePoint> until);
  Status wait_for(short events, std::optional<TimePoint> until);

  Fd socket_;
};

// Paths and names are bytes, and JSON is text: NAME, or NAME64 in base64 if it is not UTF-8.
void set_frame_bytes(Json& object, const std::string& name, std::string_view bytes);
// kInvalid if there is neither, or both, or one of another type.
Result<std::string> get_frame_bytes(const Json& object, const std::string& name);

// The answer to a request that failed, and back.
Json error_head(const Error& error);
Error error_of_head(const Json& head);

}  // namespace warren
