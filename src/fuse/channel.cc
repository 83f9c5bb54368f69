#include "fuse/channel.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/error.h"

namespace warren {
namespace {

constexpr std::chrono::microseconds kLookAgain{30};

// Newer than Debian 12's header. From <linux/fuse.h> of Linux 6.9.
struct BackingMap {
  std::int32_t fd;
  std::uint32_t flags;
  std::uint64_t padding;
};
constexpr unsigned long kBackingOpen = _IOW(229, 1, BackingMap);
constexpr unsigned long kBackingClose = _IOW(229, 2, std::uint32_t);

}  // namespace

void Buffer::Free::operator()(std::byte* memory) const { std::free(memory); }

Buffer::Buffer() : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, kRequestBytes))) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

std::optional<Request> Request::parse(Bytes received) {
  if (received.size() < sizeof(fuse_in_header)) return std::nullopt;
  const auto& header = *reinterpret_cast<const fuse_in_header*>(received.data());
  if (header.len != received.size()) return std::nullopt;
  return Request(header, received.subspan(sizeof(fuse_in_header)));
}

std::uint32_t Request::opcode() const { return header_->opcode; }
std::uint64_t Request::node() const { return header_->nodeid; }

Error Request::too_short() { return {Code::kInvalid, "the kernel's request is too short"}; }

Result<std::string_view> take_name(Bytes& bytes) {
  const void* end = std::memchr(bytes.data(), 0, bytes.size());
  if (end == nullptr) return Error(Code::kInvalid, "the kernel's request has an unterminated name");
  auto length = static_cast<std::size_t>(static_cast<const std::byte*>(end) - bytes.data());
  std::string_view name = as_text(bytes.first(length));
  bytes = bytes.subspan(length + 1);
  return name;
}

// With a single processor, polling would keep the program from running.
Channel::Channel(Fd device) : device_(std::move(device)), looks_again_(std::thread::hardware_concurrency() > 1) {
  ::fcntl(device_.get(), F_SETFL, ::fcntl(device_.get(), F_GETFL) | O_NONBLOCK);
}

Result<Bytes> Channel::try_receive(Buffer& buffer, bool& is_empty) {
  ssize_t got = ::read(device_.get(), buffer.bytes().data(), buffer.bytes().size());
  is_empty = got < 0 && errno == EAGAIN;
  if (got >= 0) return Bytes(buffer.bytes().first(static_cast<std::size_t>(got)));
  // ENOENT: the request was withdrawn while we read it.
  if (errno == EINTR || errno == ENOENT || errno == EAGAIN) return Bytes();
  if (errno == ENODEV) return Error(Code::kUnavailable, "unmounted");
  return system_error(errno, "read from /dev/fuse");
}

Result<Bytes> Channel::receive(Buffer& buffer, const std::function<bool()>& meanwhile) {
  auto until = std::chrono::steady_clock::now() + kLookAgain;
  for (;;) {
    bool is_empty = false;
    Result<Bytes> received = try_receive(buffer, is_empty);
    if (!is_empty) return received;
    if (!looks_again_ || std::chrono::steady_clock::now() > until) break;
    if (!meanwhile || !meanwhile()) ::sched_yield();
  }
  pollfd device{device_.get(), POLLIN, 0};
  ::poll(&device, 1, -1);
  return Bytes();
}

// An answer that the kernel no longer wants (its caller was killed) is not an error.
void Channel::answer(const Request& request, Bytes first, Bytes second) {
  fuse_out_header header{.len = static_cast<std::uint32_t>(sizeof(fuse_out_header) + first.size() + second.size()),
                         .error = 0,
                         .unique = request.header().unique};
  iovec parts[3] = {{&header, sizeof header},
                    {const_cast<std::byte*>(first.data()), first.size()},
                    {const_cast<std::byte*>(second.data()), second.size()}};
  int count = !second.empty() ? 3 : !first.empty() ? 2 : 1;
  while (::writev(device_.get(), parts, count) < 0 && errno == EINTR) continue;
}

void Channel::refuse(const Request& request, int error_number) {
  fuse_out_header header{.len = sizeof header, .error = -error_number, .unique = request.header().unique};
  while (::write(device_.get(), &header, sizeof header) < 0 && errno == EINTR) continue;
}

Result<std::int32_t> Channel::open_backing(const Fd& file) {
  BackingMap map{.fd = file.get(), .flags = 0, .padding = 0};
  int number = ::ioctl(device_.get(), kBackingOpen, &map);
  if (number <= 0) return system_error(number == 0 ? EINVAL : errno, "register a file for passthrough");
  return number;
}

void Channel::close_backing(std::int32_t backing) {
  auto number = static_cast<std::uint32_t>(backing);
  ::ioctl(device_.get(), kBackingClose, &number);
}

void Channel::notify(Notice notice, Bytes first, std::string_view name) {
  const char end = '\0';
  std::size_t tail = name.empty() ? 0 : name.size() + 1;
  fuse_out_header header{.len = static_cast<std::uint32_t>(sizeof header + first.size() + tail),
                         .error = static_cast<std::int32_t>(notice),
                         .unique = 0};
  iovec parts[4] = {{&header, sizeof header},
                    {const_cast<std::byte*>(first.data()), first.size()},
                    {const_cast<char*>(name.data()), name.size()},
                    {const_cast<char*>(&end), 1}};
  int count = tail > 0 ? 4 : !first.empty() ? 2 : 1;
  // ENOENT: the kernel had no copy of it, so nothing had to be dropped.
  while (::writev(device_.get(), parts, count) < 0 && errno == EINTR) continue;
}

}  // namespace warren
