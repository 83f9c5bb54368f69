// The kernel's end of a mount: requests are read from /dev/fuse, replies and notices are written to it.
//
// We speak the protocol of <linux/fuse.h> ourselves: libfuse costs 0.5 to 1 us per request, and the version in Debian
// 12 cannot negotiate the flag that keeps writes cheap (docs/design/fuse.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "fs/types.h"
#include "os/fd.h"

struct fuse_in_header;

namespace warren {

// The largest read or write in one request.
inline constexpr std::size_t kIoBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kRequestBytes = kIoBytesMax + 16384;

// Memory for one request or answer, page-aligned. Large, so it is reused and passed around.
class Buffer {
 public:
  Buffer();
  MutableBytes bytes() { return {memory_.get(), kRequestBytes}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
};

// One request, as a view of the buffer it was read into.
class Request {
 public:
  // nullopt if it is shorter than it claims or than the shortest request.
  static std::optional<Request> parse(Bytes received);

  const fuse_in_header& header() const { return *header_; }
  std::uint32_t opcode() const;
  std::uint64_t node() const;
  Inode inode() const { return Inode{node()}; }

  // The operation's own structure, and the bytes after it. kInvalid if the request is too short.
  template <typename T>
  Result<const T*> body() const {
    if (body_.size() < sizeof(T)) return too_short();
    return reinterpret_cast<const T*>(body_.data());
  }
  template <typename T>
  Bytes after() const {
    return body_.subspan(sizeof(T) < body_.size() ? sizeof(T) : body_.size());
  }
  Bytes rest() const { return body_; }

 private:
  Request(const fuse_in_header& header, Bytes body) : header_(&header), body_(body) {}
  static Error too_short();

  const fuse_in_header* header_;
  Bytes body_;
};

// Takes one NUL-terminated name from the front of `bytes`. kInvalid if there is none.
Result<std::string_view> take_name(Bytes& bytes);

enum class Notice : std::int32_t {
  kInode = 2,     // attributes and content
  kEntry = 3,     // one name
  kAllNames = 8,  // every name; since Linux 6.16
};

// Thread-safe: each request is read and each answer written by one system call.
class Channel {
 public:
  explicit Channel(Fd device);

  // The next request. Empty: interrupted, call again. kUnavailable: unmounted. Polls for a moment before it sleeps: a
  // program that got its answer usually asks for more, and a wake-up costs more than most answers. Between polls it
  // calls `meanwhile`, which may do something useful and returns whether it did.
  Result<Bytes> receive(Buffer& buffer, const std::function<bool()>& meanwhile = {});

  void answer(const Request& request, Bytes first, Bytes second = {});
  void refuse(const Request& request, int error_number);
  void notify(Notice notice, Bytes first, std::string_view name = {});

  // Registers a file that the kernel may read directly, and returns its id for open answers, never 0. The kernel
  // requires CAP_SYS_ADMIN, and that the file's filesystem is not stacked on another.
  Result<std::int32_t> open_backing(const Fd& file);
  void close_backing(std::int32_t backing);

  // Ends the connection; files that programs still have open fail from then on.
  void close() { device_ = Fd(); }

 private:
  Result<Bytes> try_receive(Buffer& buffer, bool& is_empty);

  Fd device_;
  bool looks_again_;
};

template <typename T>
Bytes bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
}

}  // namespace warren
