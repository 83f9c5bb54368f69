#include "crypto/passphrase.h"

#include <openssl/evp.h>

namespace warren {

Result<std::string> key_of_passphrase(std::string_view passphrase, Bytes salt) {
  constexpr std::uint64_t kCost = 32'768;
  constexpr std::uint64_t kBlock = 8;
  constexpr std::uint64_t kParallel = 1;
  constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;
  std::string key(32, '\0');
  int done = EVP_PBE_scrypt(passphrase.data(), passphrase.size(), reinterpret_cast<const unsigned char*>(salt.data()),
                            salt.size(), kCost, kBlock, kParallel, kMemory,
                            reinterpret_cast<unsigned char*>(key.data()), key.size());
  if (done != 1) return Error(Code::kLimit, "not enough memory to make a key of the passphrase");
  return key;
}

}  // namespace warren
