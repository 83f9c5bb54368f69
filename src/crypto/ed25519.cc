#include "crypto/ed25519.h"

#include <algorithm>
#include <memory>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/base64.h"
#include "base/check.h"

namespace warren {
namespace {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using SigningContext = std::unique_ptr<EVP_MD_CTX, FreeContext>;

// The DER of a PKCS #8 private key of this algorithm, before its 32 bytes (RFC 8410).
constexpr std::array<unsigned char, 16> kPkcs8{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                               0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
constexpr std::string_view kBegin = "-----BEGIN PRIVATE KEY-----";
constexpr std::string_view kEnd = "-----END PRIVATE KEY-----";

// Points of small order, without the bit of the sign: anybody can make signatures that hold for such a key. OpenSSL
// verifies them.
constexpr std::array<std::string_view, 7> kWeakKeys{
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "JuiVj8KyJ7BFw/SJ8u+Y8NXfrAXTxjM5sTgCiG1T/AU=", "xxdqcD1N2E+6PAt2DRBnDyogU/osOczGTsf9d5KsA3o=",
    "7P///////////////////////////////////////38=", "7f///////////////////////////////////////38=",
    "7v///////////////////////////////////////38="};

bool is_weak(std::array<std::byte, 32> key) {
  key.back() &= std::byte{0x7f};
  return std::ranges::find(kWeakKeys, encode_base64(key)) != kWeakKeys.end();
}

const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

void erase(std::string& secret) { OPENSSL_cleanse(secret.data(), secret.size()); }

Key private_key(const std::array<std::byte, 32>& seed) {
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw(seed.data()), seed.size()));
  WARREN_CHECK(key != nullptr);
  return key;
}

}  // namespace

std::string Ed25519Signature::text() const { return encode_base64(bytes); }

std::optional<Ed25519Signature> Ed25519Signature::parse(std::string_view text) {
  std::optional<std::string> decoded = decode_base64(text);
  Ed25519Signature signature;
  if (!decoded || decoded->size() != signature.bytes.size()) return std::nullopt;
  std::ranges::copy(as_bytes(*decoded), signature.bytes.begin());
  return signature;
}

std::string Ed25519Public::text() const { return std::string(kEd25519Prefix) + encode_base64(bytes); }

std::optional<Ed25519Public> Ed25519Public::parse(std::string_view text) {
  if (!text.starts_with(kEd25519Prefix)) return std::nullopt;
  std::optional<std::string> decoded = decode_base64(text.substr(kEd25519Prefix.size()));
  Ed25519Public key;
  if (!decoded || decoded->size() != key.bytes.size()) return std::nullopt;
  std::ranges::copy(as_bytes(*decoded), key.bytes.begin());
  if (is_weak(key.bytes)) return std::nullopt;
  return key;
}

bool Ed25519Public::verifies(Bytes data, const Ed25519Signature& signature) const {
  Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw(bytes.data()), bytes.size()));
  SigningContext context(EVP_MD_CTX_new());
  WARREN_CHECK(context != nullptr);
  if (key == nullptr) return false;
  if (EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1) return false;
  return EVP_DigestVerify(context.get(), raw(signature.bytes.data()), signature.bytes.size(), raw(data.data()),
                          data.size()) == 1;
}

Ed25519Private Ed25519Private::generate() {
  Ed25519Private key;
  auto* seed = reinterpret_cast<unsigned char*>(key.seed_.data());
  WARREN_CHECK(RAND_priv_bytes(seed, static_cast<int>(key.seed_.size())) == 1);
  return key;
}

Result<Ed25519Private> Ed25519Private::parse_pem(std::string_view text) {
  auto wrong = [] {
    return Error(Code::kInvalid, "not an Ed25519 private key in PEM", "`warren trust keygen FILE` makes one");
  };
  text = trimmed(text, kWhitespace);
  if (!text.starts_with(kBegin) || !text.ends_with(kEnd) || text.size() < kBegin.size() + kEnd.size()) return wrong();
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - kEnd.size());
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return c != '\n' && c != '\r'; });
  std::optional<std::string> der = decode_base64(digits);
  erase(digits);
  Ed25519Private key;
  bool is_ours = der && der->size() == kPkcs8.size() + key.seed_.size() &&
                 std::equal(kPkcs8.begin(), kPkcs8.end(), reinterpret_cast<const unsigned char*>(der->data()));
  if (is_ours) std::ranges::copy(as_bytes(*der).subspan(kPkcs8.size()), key.seed_.begin());
  if (der) erase(*der);
  if (!is_ours) return wrong();
  return key;
}

Ed25519Private::Ed25519Private(Ed25519Private&& other) noexcept : seed_(other.seed_) {
  OPENSSL_cleanse(other.seed_.data(), other.seed_.size());
}

Ed25519Private& Ed25519Private::operator=(Ed25519Private&& other) noexcept {
  if (this == &other) return *this;
  seed_ = other.seed_;
  OPENSSL_cleanse(other.seed_.data(), other.seed_.size());
  return *this;
}

Ed25519Private::~Ed25519Private() { OPENSSL_cleanse(seed_.data(), seed_.size()); }

std::string Ed25519Private::pem() const {
  std::string der(reinterpret_cast<const char*>(kPkcs8.data()), kPkcs8.size());
  der.append(reinterpret_cast<const char*>(seed_.data()), seed_.size());
  std::string text = encode_base64(as_bytes(der));
  erase(der);
  std::string pem = fmt::format("{}\n{}\n{}\n", kBegin, text, kEnd);
  erase(text);
  return pem;
}

Ed25519Public Ed25519Private::public_key() const {
  Key key = private_key(seed_);
  Ed25519Public found;
  std::size_t size = found.bytes.size();
  auto* out = reinterpret_cast<unsigned char*>(found.bytes.data());
  WARREN_CHECK(EVP_PKEY_get_raw_public_key(key.get(), out, &size) == 1 && size == found.bytes.size());
  return found;
}

Ed25519Signature Ed25519Private::sign(Bytes data) const {
  Key key = private_key(seed_);
  SigningContext context(EVP_MD_CTX_new());
  Ed25519Signature signature;
  std::size_t size = signature.bytes.size();
  auto* out = reinterpret_cast<unsigned char*>(signature.bytes.data());
  WARREN_CHECK(context != nullptr);
  WARREN_CHECK(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1);
  WARREN_CHECK(EVP_DigestSign(context.get(), out, &size, raw(data.data()), data.size()) == 1);
  WARREN_CHECK(size == signature.bytes.size());
  return signature;
}

}  // namespace warren
