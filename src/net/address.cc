#include "net/address.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace warren::net {
namespace {

struct Network {
  std::array<std::uint8_t, 16> first;
  int bits;
};

// IANA's registry of special-purpose addresses, and multicast.
constexpr std::array<Network, 16> kSpecialV4{{{{0}, 8},
                                              {{10}, 8},
                                              {{100, 64}, 10},
                                              {{127}, 8},
                                              {{169, 254}, 16},
                                              {{172, 16}, 12},
                                              {{192, 0, 0}, 24},
                                              {{192, 0, 2}, 24},
                                              {{192, 31, 196}, 24},
                                              {{192, 52, 193}, 24},
                                              {{192, 88, 99}, 24},
                                              {{192, 168}, 16},
                                              {{198, 18}, 15},
                                              {{198, 51, 100}, 24},
                                              {{203, 0, 113}, 24},
                                              {{224}, 3}}};  // multicast, reserved, broadcast

// Within 2000::/3; everything outside of it is special.
constexpr std::array<Network, 4> kSpecialV6{{{{0x20, 0x01, 0x00}, 23},             // among others Teredo
                                             {{0x20, 0x01, 0x0d, 0xb8}, 32},       // documentation
                                             {{0x3f, 0xff}, 20},                   // documentation
                                             {{0x26, 0x20, 0, 0x4f, 0x80}, 48}}};  // direct delegation AS112

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::array<std::uint8_t, 12> kTranslated{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0};  // NAT64

bool begins_with(const std::uint8_t* bytes, const std::uint8_t* network, int bits) {
  int whole = bits / 8;
  if (std::memcmp(bytes, network, static_cast<std::size_t>(whole)) != 0) return false;
  int rest = bits % 8;
  if (rest == 0) return true;
  auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
  return (bytes[whole] & mask) == (network[whole] & mask);
}

template <class Networks>
bool is_in_any(const std::uint8_t* bytes, const Networks& networks) {
  return std::any_of(networks.begin(), networks.end(),
                     [&](const Network& one) { return begins_with(bytes, one.first.data(), one.bits); });
}

}  // namespace

Address Address::v4(const std::uint8_t* bytes) {
  Address address;
  std::memcpy(address.bytes_.data(), bytes, 4);
  return address;
}

Address Address::v6(const std::uint8_t* bytes) {
  if (std::memcmp(bytes, kMapped.data(), kMapped.size()) == 0) return v4(bytes + kMapped.size());
  Address address;
  address.is_v6_ = true;
  std::memcpy(address.bytes_.data(), bytes, 16);
  return address;
}

std::optional<Address> Address::parse(std::string_view text) {
  std::array<std::uint8_t, 16> bytes{};
  std::string terminated(text);
  if (terminated.find('\0') != std::string::npos) return std::nullopt;
  if (::inet_pton(AF_INET, terminated.c_str(), bytes.data()) == 1) return v4(bytes.data());
  if (::inet_pton(AF_INET6, terminated.c_str(), bytes.data()) == 1) return v6(bytes.data());
  return std::nullopt;
}

std::optional<Address> Address::of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return v4(reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr));
  }
  if (address.sa_family == AF_INET6) {
    return v6(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr.s6_addr);
  }
  return std::nullopt;
}

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(is_v6_ ? AF_INET6 : AF_INET, bytes_.data(), text.data(), text.size());
  return text.data();
}

bool Address::is_loopback() const {
  if (!is_v6_) return bytes_[0] == 127;
  return bytes_[15] == 1 && std::all_of(bytes_.begin(), bytes_.end() - 1, [](std::uint8_t byte) { return byte == 0; });
}

bool Address::is_public() const {
  if (!is_v6_) return !is_in_any(bytes_.data(), kSpecialV4);
  if (std::memcmp(bytes_.data(), kTranslated.data(), kTranslated.size()) == 0) {
    return v4(bytes_.data() + kTranslated.size()).is_public();
  }
  bool is_6to4 = bytes_[0] == 0x20 && bytes_[1] == 0x02;
  if (is_6to4) return v4(bytes_.data() + 2).is_public();
  bool is_global = (bytes_[0] & 0xe0) == 0x20;
  return is_global && !is_in_any(bytes_.data(), kSpecialV6);
}

bool Address::is_in(const Address& network, int bits) const {
  return is_v6_ == network.is_v6_ && begins_with(bytes_.data(), network.bytes_.data(), bits);
}

bool is_own_address(const Address& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    std::optional<Address> own = Address::of(*one->ifa_addr);
    if (own && *own == address) return true;
  }
  return false;
}

}  // namespace warren::net
