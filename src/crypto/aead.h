// AES-256: authenticated encryption of a piece of data (GCM), and single blocks.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "base/bytes.h"

struct evp_cipher_ctx_st;

namespace warren {

struct FreeCipher {
  void operator()(evp_cipher_ctx_st* context) const;
};
using CipherContext = std::unique_ptr<evp_cipher_ctx_st, FreeCipher>;

// AES-256-GCM with one key for many pieces. The caller never uses a nonce twice with a key. For one thread at a time.
class Aes256Gcm {
 public:
  static constexpr std::size_t kKeyBytes = 32;
  using Nonce = std::array<std::byte, 12>;
  using Tag = std::array<std::byte, 16>;

  explicit Aes256Gcm(Bytes key);

  // `out` has the size of `data`. `bound` is not stored, and has to be the same when it is opened.
  Tag seal(const Nonce& nonce, Bytes bound, Bytes data, MutableBytes out);
  // False if anything is not as it was sealed; `out`, of the size of `data`, is then all zeros.
  bool open(const Nonce& nonce, Bytes bound, Bytes data, const Tag& tag, MutableBytes out);

 private:
  CipherContext sealing_;
  CipherContext opening_;
};

// AES-256 of independent blocks: a pseudorandom function of 16 bytes, not a way to encrypt data.
class Aes256Blocks {
 public:
  static constexpr std::size_t kBlockBytes = 16;

  explicit Aes256Blocks(Bytes key);  // 32 bytes

  void apply(MutableBytes blocks);  // in place; whole blocks

 private:
  CipherContext context_;
};

}  // namespace warren
