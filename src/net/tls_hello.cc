#include "net/tls_hello.h"

#include <cstdint>

namespace warren::net {
namespace {

constexpr std::size_t kHelloBytes = std::size_t{64} << 10;
constexpr std::size_t kRecordBytes = 16'384 + 256;
constexpr unsigned kHandshake = 22;
constexpr unsigned kClientHello = 1;
constexpr unsigned kServerName = 0;

// Takes numbers and strings from the front; after the first one that is missing, nothing is.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  unsigned number(std::size_t size) {
    unsigned value = 0;
    for (char byte : take(size)) value = value << 8 | static_cast<std::uint8_t>(byte);
    return value;
  }
  // Bytes after their length, which has `size` bytes itself.
  std::string_view sized(std::size_t size) {
    std::size_t length = number(size);
    return take(length);
  }
  std::string_view take(std::size_t size) {
    if (!is_ok_ || size > rest_.size()) {
      is_ok_ = false;
      return {};
    }
    std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  bool is_ok() const { return is_ok_; }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_ok_ = true;
};

// False: broken.
bool read_server_name(std::string_view extension, std::optional<std::string>& name) {
  Reader outer(extension);
  Reader list(outer.sized(2));
  if (!outer.is_ok() || !outer.is_at_end() || name) return false;
  unsigned type = list.number(1);
  std::string_view host = list.sized(2);
  // One name, of the only type there is.
  if (!list.is_ok() || !list.is_at_end() || type != 0 || host.empty()) return false;
  name = std::string(host);
  return true;
}

TlsHello read_hello(std::string_view body) {
  TlsHello hello{.kind = TlsHello::Kind::kBroken, .server_name = std::nullopt};
  Reader reader(body);
  reader.take(2 + 32);  // version, random
  reader.sized(1);      // session
  reader.sized(2);      // ciphers
  reader.sized(1);      // compressions
  if (!reader.is_ok()) return hello;
  Reader extensions(reader.is_at_end() ? std::string_view() : reader.sized(2));
  if (!reader.is_ok() || !reader.is_at_end()) return hello;
  while (!extensions.is_at_end()) {
    unsigned type = extensions.number(2);
    std::string_view content = extensions.sized(2);
    if (!extensions.is_ok()) return hello;
    if (type == kServerName && !read_server_name(content, hello.server_name)) return hello;
  }
  hello.kind = TlsHello::Kind::kComplete;
  return hello;
}

}  // namespace

TlsHello parse_tls_hello(std::string_view bytes) {
  using Kind = TlsHello::Kind;
  if (bytes.empty()) return {};
  if (static_cast<std::uint8_t>(bytes.front()) != kHandshake) return {Kind::kNotTls, std::nullopt};
  std::string handshake;  // may be spread over several records
  std::string_view rest = bytes;
  while (!rest.empty()) {
    Reader header(rest);
    unsigned type = header.number(1);
    unsigned major = header.number(1);
    if (rest.size() >= 2 && (type != kHandshake || major != 3)) return {Kind::kBroken, std::nullopt};
    header.number(1);
    std::size_t length = header.number(2);
    if (!header.is_ok()) break;
    if (length == 0 || length > kRecordBytes) return {Kind::kBroken, std::nullopt};
    rest.remove_prefix(5);
    handshake += rest.substr(0, length);
    if (handshake.size() > kHelloBytes) return {Kind::kBroken, std::nullopt};
    Reader message(handshake);
    unsigned kind = message.number(1);
    if (message.is_ok() && kind != kClientHello) return {Kind::kBroken, std::nullopt};
    std::size_t size = message.number(3);
    if (message.is_ok()) {
      if (size > kHelloBytes) return {Kind::kBroken, std::nullopt};
      std::string_view body = message.take(size);
      if (message.is_ok()) return read_hello(body);
    }
    if (rest.size() < length) break;
    rest.remove_prefix(length);
  }
  if (bytes.size() > kHelloBytes * 2) return {Kind::kBroken, std::nullopt};
  return {};
}

}  // namespace warren::net
