// An IP address, and what kind of network it belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sockaddr;

namespace warren::net {

// An IPv6 address that stands for an IPv4 one (::ffff:a.b.c.d) is that IPv4 address.
class Address {
 public:
  // Four decimal numbers, or IPv6 without brackets and without a zone. Nothing else that inet_aton() would understand
  // ("127.1", "0x7f.1", "2130706433").
  static std::optional<Address> parse(std::string_view text);
  static std::optional<Address> of(const sockaddr& address);
  static Address v4(const std::uint8_t* bytes);  // 4 of them
  static Address v6(const std::uint8_t* bytes);  // 16

  bool is_v6() const { return is_v6_; }
  const std::array<std::uint8_t, 16>& bytes() const { return bytes_; }  // four of them for IPv4
  std::string text() const;

  bool is_loopback() const;
  // Reachable from anywhere in the internet: not private, loopback, link-local, multicast, reserved, or an IPv6 address
  // that leads to such an IPv4 one.
  bool is_public() const;
  // Whether the first `bits` are those of `network`.
  bool is_in(const Address& network, int bits) const;

  bool operator==(const Address&) const = default;

 private:
  bool is_v6_ = false;
  std::array<std::uint8_t, 16> bytes_{};
};

// Whether it is an address of one of this machine's devices.
bool is_own_address(const Address& address);

}  // namespace warren::net
