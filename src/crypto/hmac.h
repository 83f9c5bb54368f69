// HMAC-SHA256 with one key for many messages, and random bytes for new keys.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "crypto/digest.h"

struct evp_md_ctx_st;

namespace warren {

// The key is hashed once, so that a short message costs two blocks of SHA-256. For one thread at a time.
class HmacSha256 {
 public:
  explicit HmacSha256(Bytes key);
  ~HmacSha256();
  HmacSha256(HmacSha256&&) noexcept = default;
  HmacSha256& operator=(HmacSha256&&) noexcept = default;

  Sha256::Value sign(Bytes message);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_md_ctx_st, Free>;

  Context inner_;  // after the key's first block
  Context outer_;
  Context work_;
};

// From the system's generator: for keys.
void fill_with_random(MutableBytes out);

}  // namespace warren
