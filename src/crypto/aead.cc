#include "crypto/aead.h"

#include <algorithm>
#include <climits>

#include <openssl/evp.h>

#include "base/check.h"

namespace warren {
namespace {

// Found once: OpenSSL's lookup by name takes longer than encrypting a chunk.
const EVP_CIPHER* gcm_algorithm() {
  static const EVP_CIPHER* const found = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  WARREN_CHECK(found != nullptr);
  return found;
}

const EVP_CIPHER* block_algorithm() {
  static const EVP_CIPHER* const found = EVP_CIPHER_fetch(nullptr, "AES-256-ECB", nullptr);
  WARREN_CHECK(found != nullptr);
  return found;
}

const unsigned char* raw(Bytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* raw(MutableBytes bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

int length_of(Bytes bytes) {
  WARREN_CHECK(bytes.size() <= INT_MAX);
  return static_cast<int>(bytes.size());
}

CipherContext new_context() {
  CipherContext context(EVP_CIPHER_CTX_new());
  WARREN_CHECK(context != nullptr);
  return context;
}

}  // namespace

void FreeCipher::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

Aes256Gcm::Aes256Gcm(Bytes key) : sealing_(new_context()), opening_(new_context()) {
  WARREN_CHECK(key.size() == kKeyBytes);
  WARREN_CHECK(EVP_EncryptInit_ex2(sealing_.get(), gcm_algorithm(), raw(key), nullptr, nullptr) == 1);
  WARREN_CHECK(EVP_DecryptInit_ex2(opening_.get(), gcm_algorithm(), raw(key), nullptr, nullptr) == 1);
}

Aes256Gcm::Tag Aes256Gcm::seal(const Nonce& nonce, Bytes bound, Bytes data, MutableBytes out) {
  WARREN_CHECK(out.size() == data.size());
  EVP_CIPHER_CTX* context = sealing_.get();
  int done = 0;
  Tag tag;
  WARREN_CHECK(EVP_EncryptInit_ex2(context, nullptr, nullptr, raw(Bytes(nonce)), nullptr) == 1);
  WARREN_CHECK(EVP_EncryptUpdate(context, nullptr, &done, raw(bound), length_of(bound)) == 1);
  WARREN_CHECK(EVP_EncryptUpdate(context, raw(out), &done, raw(data), length_of(data)) == 1);
  WARREN_CHECK(EVP_EncryptFinal_ex(context, nullptr, &done) == 1);
  WARREN_CHECK(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
  return tag;
}

bool Aes256Gcm::open(const Nonce& nonce, Bytes bound, Bytes data, const Tag& tag, MutableBytes out) {
  WARREN_CHECK(out.size() == data.size());
  EVP_CIPHER_CTX* context = opening_.get();
  int done = 0;
  Tag expected = tag;
  WARREN_CHECK(EVP_DecryptInit_ex2(context, nullptr, nullptr, raw(Bytes(nonce)), nullptr) == 1);
  WARREN_CHECK(EVP_DecryptUpdate(context, nullptr, &done, raw(bound), length_of(bound)) == 1);
  WARREN_CHECK(EVP_DecryptUpdate(context, raw(out), &done, raw(data), length_of(data)) == 1);
  WARREN_CHECK(
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(expected.size()), expected.data()) == 1);
  if (EVP_DecryptFinal_ex(context, nullptr, &done) == 1) return true;
  std::fill(out.begin(), out.end(), std::byte{0});
  return false;
}

Aes256Blocks::Aes256Blocks(Bytes key) : context_(new_context()) {
  WARREN_CHECK(key.size() == Aes256Gcm::kKeyBytes);
  WARREN_CHECK(EVP_EncryptInit_ex2(context_.get(), block_algorithm(), raw(key), nullptr, nullptr) == 1);
  WARREN_CHECK(EVP_CIPHER_CTX_set_padding(context_.get(), 0) == 1);
}

void Aes256Blocks::apply(MutableBytes blocks) {
  WARREN_CHECK(blocks.size() % kBlockBytes == 0);
  int done = 0;
  WARREN_CHECK(EVP_EncryptUpdate(context_.get(), raw(blocks), &done, raw(Bytes(blocks)), length_of(blocks)) == 1);
  WARREN_CHECK(static_cast<std::size_t>(done) == blocks.size());
}

}  // namespace warren
