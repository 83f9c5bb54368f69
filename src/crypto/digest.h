// SHA-256 of bytes, in one call or incrementally, and what is made of digests. The only user of OpenSSL's digests.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "base/bytes.h"

struct evp_md_ctx_st;

namespace warren {

// For one thread. After finish() it starts over.
class Sha256 {
 public:
  using Value = std::array<std::byte, 32>;

  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept = default;
  Sha256& operator=(Sha256&&) noexcept = default;

  void update(Bytes data);
  Value finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_hex(Bytes data);  // 64 digits, lower case

Sha256::Value hmac_sha256(Bytes key, Bytes data);

// For a protocol that asks for it (Content-MD5). It protects against accidents, not against people.
std::string md5_base64(Bytes data);

std::string hex_of(Bytes data);

}  // namespace warren
