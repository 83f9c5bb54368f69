#include "host/frame.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/path.h"
#include "base/utf8.h"
#include "os/error.h"

namespace warren {
namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kReadStep = std::size_t{1} << 20;
constexpr int kLastCode = static_cast<int>(Code::kRange);

std::size_t get_length(const std::byte* at) {
  std::size_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::size_t>(at[i]);
  return value;
}

void put_length(std::string& out, std::size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 255U);
}

}  // namespace

Status FrameSocket::wait_for(short events, std::optional<TimePoint> until) {
  for (;;) {
    int timeout = -1;
    if (until) {
      auto left = std::chrono::ceil<Milliseconds>(*until - std::chrono::steady_clock::now()).count();
      if (left <= 0) return Error(Code::kTimeout, "timed out waiting for the other side of the connection");
      timeout = static_cast<int>(std::min<std::int64_t>(left, 1 << 30));
    }
    pollfd waiting{.fd = socket_.get(), .events = events, .revents = 0};
    int ready = ::poll(&waiting, 1, timeout);
    if (ready > 0) return Ok{};
    if (ready < 0 && errno != EINTR) return system_error(errno, "wait for a connection");
  }
}

Result<bool> FrameSocket::read_exactly(MutableBytes out, std::optional<TimePoint> until) {
  std::size_t got = 0;
  while (got < out.size()) {
    ssize_t count = ::recv(socket_.get(), out.data() + got, out.size() - got, MSG_DONTWAIT);
    if (count > 0) {
      got += static_cast<std::size_t>(count);
      continue;
    }
    if (count == 0 && got == 0) return false;
    if (count == 0) return Error(Code::kInvalid, "the connection was closed within a message");
    if (errno == EINTR) continue;
    if (errno == ECONNRESET && got == 0) return false;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return system_error(errno, "read from a connection");
    WARREN_TRY(wait_for(POLLIN, until));
  }
  return true;
}

Result<std::optional<Frame>> FrameSocket::read(const ReadLimits& limits) {
  std::optional<TimePoint> until;
  if (limits.first_byte) until = std::chrono::steady_clock::now() + *limits.first_byte;
  std::array<std::byte, kPrefixBytes> prefix{};
  if (!WARREN_TRY(read_exactly(MutableBytes(prefix).first(1), until))) return std::optional<Frame>();
  until = std::chrono::steady_clock::now() + limits.rest;
  auto read_rest = [&](MutableBytes out) -> Status {
    if (WARREN_TRY(read_exactly(out, until))) return Ok{};
    return Error(Code::kInvalid, "the connection was closed within a message");
  };
  WARREN_TRY(read_rest(MutableBytes(prefix).subspan(1)));
  std::size_t head_bytes = get_length(prefix.data());
  std::size_t body_bytes = get_length(prefix.data() + 4);
  if (head_bytes > limits.head_bytes || body_bytes > limits.body_bytes) {
    return Error(Code::kTooLarge, fmt::format("a message has at most {} bytes of JSON and {} bytes after it",
                                              limits.head_bytes, limits.body_bytes));
  }
  std::string text(head_bytes, '\0');
  if (head_bytes > 0) WARREN_TRY(read_rest(as_mutable_bytes(text)));
  Frame frame;
  frame.head = WARREN_TRY(parse_json(text).within("message"));
  if (!frame.head.is_object()) return Error(Code::kInvalid, "a message is a JSON object");
  if (body_bytes > 0 && limits.admit) WARREN_TRY(limits.admit(body_bytes));
  // In steps: memory is taken for what has come, not for what was announced.
  while (frame.body.size() < body_bytes) {
    std::size_t had = frame.body.size();
    frame.body.resize(std::min(body_bytes, had + kReadStep));
    WARREN_TRY(read_rest(as_mutable_bytes(frame.body).subspan(had)));
  }
  return std::optional(std::move(frame));
}

Status FrameSocket::write(const Json& head, std::string_view body, Milliseconds at_most) {
  std::string text = dump_json(head);
  if (text.size() > kFrameHeadBytes || body.size() > kFrameBodyBytes) {
    return Error(Code::kTooLarge, fmt::format("a message has at most {} bytes of JSON and {} bytes after it",
                                              kFrameHeadBytes, kFrameBodyBytes));
  }
  std::string start;
  put_length(start, text.size());
  put_length(start, body.size());
  start += text;
  TimePoint until = std::chrono::steady_clock::now() + at_most;
  for (std::string_view part : {std::string_view(start), body}) {
    while (!part.empty()) {
      ssize_t count = ::send(socket_.get(), part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count >= 0) {
        part.remove_prefix(static_cast<std::size_t>(count));
        continue;
      }
      if (errno == EINTR) continue;
      if (errno == EPIPE || errno == ECONNRESET) return Error(Code::kUnavailable, "the connection was closed");
      if (errno != EAGAIN && errno != EWOULDBLOCK) return system_error(errno, "write to a connection");
      WARREN_TRY(wait_for(POLLOUT, until));
    }
  }
  return Ok{};
}

void FrameSocket::interrupt() { ::shutdown(socket_.get(), SHUT_RD); }
void FrameSocket::close_both() { ::shutdown(socket_.get(), SHUT_RDWR); }

void set_frame_bytes(Json& object, const std::string& name, std::string_view bytes) {
  if (is_utf8(bytes)) object[name] = bytes;
  else object[name + "64"] = encode_base64(as_bytes(bytes));
}

Result<std::string> get_frame_bytes(const Json& object, const std::string& name) {
  auto plain = object.find(name);
  auto encoded = object.find(name + "64");
  bool has_plain = plain != object.end() && plain->is_string();
  bool has_encoded = encoded != object.end() && encoded->is_string();
  if (has_plain && encoded == object.end()) return plain->get<std::string>();
  if (has_encoded && plain == object.end()) {
    std::optional<std::string> bytes = decode_base64(encoded->get<std::string>());
    if (bytes) return *std::move(bytes);
  }
  return Error(Code::kInvalid,
               fmt::format("{} must be a string, or {} one in base64", quote(name), quote(name + "64")));
}

Json error_head(const Error& error) {
  Json inner{{"code", name_of(error.code())}, {"message", error.message()}};
  if (!error.hint().empty()) inner["hint"] = error.hint();
  return {{"ok", false}, {"error", std::move(inner)}};
}

Error error_of_head(const Json& head) {
  auto found = head.find("error");
  if (found == head.end() || !found->is_object()) return Error(Code::kIo, "the host's answer is not an answer");
  auto text = [&](const char* name) {
    auto member = found->find(name);
    return member != found->end() && member->is_string() ? member->get<std::string>() : std::string();
  };
  for (int number = 1; number <= kLastCode; ++number) {
    if (name_of(static_cast<Code>(number)) == text("code")) {
      return Error(static_cast<Code>(number), text("message"), text("hint"));
    }
  }
  return Error(Code::kIo, text("message"), text("hint"));
}

}  // namespace warren
