#include "crypto/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace warren {
namespace {

// Looking up an algorithm costs more than hashing a small message: done once per process, never freed.
const EVP_MD* algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  WARREN_CHECK(found != nullptr);
  return found;
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  WARREN_CHECK(context_ != nullptr);
  WARREN_CHECK(EVP_DigestInit_ex2(context_.get(), algorithm(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(Bytes data) { WARREN_CHECK(EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1); }

Sha256::Value Sha256::finish() {
  Value value;
  WARREN_CHECK(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(value.data()), nullptr) == 1);
  WARREN_CHECK(EVP_DigestInit_ex2(context_.get(), algorithm(), nullptr) == 1);
  return value;
}

std::string hex_of(Bytes data) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(data.size() * 2);
  for (std::byte b : data) {
    out += kDigits[std::to_integer<unsigned>(b) >> 4];
    out += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

std::string sha256_hex(Bytes data) {
  thread_local Sha256 digest;  // creating one takes as long as hashing a small message
  digest.update(data);
  return hex_of(digest.finish());
}

Sha256::Value hmac_sha256(Bytes key, Bytes data) {
  Sha256::Value value;
  auto* out = reinterpret_cast<unsigned char*>(value.data());
  const auto* in = reinterpret_cast<const unsigned char*>(data.data());
  // OpenSSL takes a missing key for "the same as before".
  const void* key_bytes = key.empty() ? static_cast<const void*>("") : key.data();
  WARREN_CHECK(HMAC(algorithm(), key_bytes, static_cast<int>(key.size()), in, data.size(), out, nullptr) != nullptr);
  return value;
}

std::string md5_base64(Bytes data) {
  std::array<unsigned char, 16> value{};
  WARREN_CHECK(EVP_Digest(data.data(), data.size(), value.data(), nullptr, EVP_md5(), nullptr) == 1);
  std::array<unsigned char, 25> text{};  // 24 characters and a NUL
  EVP_EncodeBlock(text.data(), value.data(), static_cast<int>(value.size()));
  return {reinterpret_cast<const char*>(text.data()), 24};
}

}  // namespace warren
