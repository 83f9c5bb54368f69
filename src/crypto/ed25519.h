// Ed25519 signatures (RFC 8032), and keys as text: a public key as "ed25519:BASE64", a private one as PKCS #8 PEM, as
// OpenSSL and other programs write it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace warren {

inline constexpr std::string_view kEd25519Prefix = "ed25519:";

struct Ed25519Signature {
  std::array<std::byte, 64> bytes{};

  std::string text() const;  // base64
  static std::optional<Ed25519Signature> parse(std::string_view text);
  bool operator==(const Ed25519Signature&) const = default;
};

// A value.
struct Ed25519Public {
  std::array<std::byte, 32> bytes{};

  std::string text() const;
  // nullopt unless it is exactly what text() returns for some key; also for keys under which anybody can sign.
  static std::optional<Ed25519Public> parse(std::string_view text);
  bool verifies(Bytes data, const Ed25519Signature& signature) const;
  auto operator<=>(const Ed25519Public&) const = default;
};

// A private key, erased from memory when it is destroyed. Movable, not copyable. Safe to use from several threads.
class Ed25519Private {
 public:
  static Ed25519Private generate();
  // kInvalid says what is wrong, and never contains anything of the text.
  static Result<Ed25519Private> parse_pem(std::string_view text);

  Ed25519Private(Ed25519Private&& other) noexcept;
  Ed25519Private& operator=(Ed25519Private&& other) noexcept;
  ~Ed25519Private();

  std::string pem() const;
  Ed25519Public public_key() const;
  Ed25519Signature sign(Bytes data) const;

 private:
  Ed25519Private() = default;
  std::array<std::byte, 32> seed_{};
};

}  // namespace warren
