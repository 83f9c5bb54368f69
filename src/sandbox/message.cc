#include "sandbox/message.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "os/error.h"

namespace warren {
namespace {

constexpr std::size_t kMessageBytes = 128 * 1024;
constexpr std::size_t kFdsMax = 16;

Error gone() { return {Code::kUnavailable, "the other side has ended"}; }

std::string joined(std::span<const std::string> fields) {
  std::string text;
  for (const std::string& field : fields) (text += field) += '\0';
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> fields;
  while (!text.empty()) {
    std::size_t end = std::min(text.find('\0'), text.size());
    fields.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return fields;
}

// Takes ownership of every received descriptor, even if the message is otherwise invalid.
std::vector<Fd> take_fds(msghdr& header) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      fds.emplace_back(number);
    }
  }
  return fds;
}

}  // namespace

Result<std::pair<Fd, Fd>> open_message_pair() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return system_error(errno, "socketpair");
  return std::pair(Fd(pair[0]), Fd(pair[1]));
}

Status send_message(int socket, std::span<const std::string> fields, std::span<const int> fds) {
  std::string text = joined(fields);
  if (text.size() > kMessageBytes || fds.size() > kFdsMax) {
    return Error(Code::kTooLarge, fmt::format("a message of {} bytes is too large", text.size()));
  }
  iovec data{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsMax)> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(part), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) return Ok{};
  bool is_gone = errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
  return is_gone ? gone() : system_error(errno, "send a message");
}

Status send_error(int socket, const Error& error) {
  std::array<std::string, 4> fields{"error", std::to_string(static_cast<int>(error.code())), error.message(),
                                    error.hint()};
  return send_message(socket, fields);
}

Result<Message> receive_message(int socket) {
  std::string text(kMessageBytes, '\0');
  iovec data{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsMax)> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = 0;
  do got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno != ECONNRESET) return system_error(errno, "receive a message");
  if (got <= 0) return gone();
  Message message{.fields = {}, .fds = take_fds(header)};
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return Error(Code::kIo, "a message was truncated");
  message.fields = split(std::string_view(text).substr(0, static_cast<std::size_t>(got)));
  if (message.fields.empty()) return Error(Code::kIo, "a message was empty");
  if (message.verb() == "error" && message.fields.size() == 4) {
    int code = parse_number<int>(message.fields[1]).value_or(0);
    bool is_code = code >= static_cast<int>(Code::kInternal) && code <= static_cast<int>(Code::kRange);
    return Error(is_code ? static_cast<Code>(code) : Code::kIo, message.fields[2], message.fields[3]);
  }
  return message;
}

}  // namespace warren
