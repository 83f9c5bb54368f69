#include "crypto/hmac.h"

#include <algorithm>
#include <array>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace warren {
namespace {

constexpr std::size_t kBlockBytes = 64;
using Block = std::array<unsigned char, kBlockBytes>;

const EVP_MD* hmac_algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  WARREN_CHECK(found != nullptr);
  return found;
}

// The state after a block of the key combined with `pad` (RFC 2104).
evp_md_ctx_st* begun_with(const Block& key, unsigned char pad) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  WARREN_CHECK(context != nullptr);
  Block block = key;
  for (unsigned char& byte : block) byte ^= pad;
  WARREN_CHECK(EVP_DigestInit_ex2(context, hmac_algorithm(), nullptr) == 1);
  WARREN_CHECK(EVP_DigestUpdate(context, block.data(), block.size()) == 1);
  return context;
}

}  // namespace

void HmacSha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

HmacSha256::HmacSha256(Bytes key) : work_(EVP_MD_CTX_new()) {
  WARREN_CHECK(work_ != nullptr);
  Block block{};
  if (key.size() > kBlockBytes) {
    Sha256 digest;
    digest.update(key);
    Sha256::Value hashed = digest.finish();
    std::transform(hashed.begin(), hashed.end(), block.begin(),
                   [](std::byte b) { return static_cast<unsigned char>(b); });
  } else {
    std::transform(key.begin(), key.end(), block.begin(), [](std::byte b) { return static_cast<unsigned char>(b); });
  }
  inner_.reset(begun_with(block, 0x36));
  outer_.reset(begun_with(block, 0x5c));
}

HmacSha256::~HmacSha256() = default;

Sha256::Value HmacSha256::sign(Bytes message) {
  Sha256::Value value;
  auto* out = reinterpret_cast<unsigned char*>(value.data());
  WARREN_CHECK(EVP_MD_CTX_copy_ex(work_.get(), inner_.get()) == 1);
  WARREN_CHECK(EVP_DigestUpdate(work_.get(), message.data(), message.size()) == 1);
  WARREN_CHECK(EVP_DigestFinal_ex(work_.get(), out, nullptr) == 1);
  WARREN_CHECK(EVP_MD_CTX_copy_ex(work_.get(), outer_.get()) == 1);
  WARREN_CHECK(EVP_DigestUpdate(work_.get(), out, value.size()) == 1);
  WARREN_CHECK(EVP_DigestFinal_ex(work_.get(), out, nullptr) == 1);
  return value;
}

void fill_with_random(MutableBytes out) {
  WARREN_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) == 1);
}

}  // namespace warren
