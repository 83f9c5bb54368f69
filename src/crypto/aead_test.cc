#include "crypto/aead.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "crypto/digest.h"

namespace warren {
namespace {

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(at, 2)), nullptr, 16)));
  }
  return bytes;
}

template <class Array>
Array array_of(std::string_view bytes) {
  Array all{};
  std::transform(bytes.begin(), bytes.end(), all.begin(), [](char c) { return static_cast<std::byte>(c); });
  return all;
}

struct Vector {
  std::string_view key, nonce, bound, plain, sealed, tag;
};

// The GCM specification (McGrew and Viega), test cases 13 to 16.
constexpr Vector kVectors[] = {
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "", "", "",
     "530f8afbc74536b9a963b4f1c4cb738b"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "",
     "00000000000000000000000000000000", "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
     "ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0a"
     "bcc9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
     "ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0a"
     "bcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

TEST(Aead, SealsAndOpensAsTheSpecificationSays) {
  for (const Vector& vector : kVectors) {
    Aes256Gcm gcm(as_bytes(from_hex(vector.key)));
    auto nonce = array_of<Aes256Gcm::Nonce>(from_hex(vector.nonce));
    std::string bound = from_hex(vector.bound);
    std::string plain = from_hex(vector.plain);
    std::string out(plain.size(), '\0');
    Aes256Gcm::Tag tag = gcm.seal(nonce, as_bytes(bound), as_bytes(plain), as_mutable_bytes(out));
    EXPECT_EQ(hex_of(as_bytes(out)), vector.sealed);
    EXPECT_EQ(hex_of(Bytes(tag)), vector.tag);
    std::string back(out.size(), 'x');
    EXPECT_TRUE(gcm.open(nonce, as_bytes(bound), as_bytes(out), tag, as_mutable_bytes(back)));
    EXPECT_EQ(back, plain);
  }
}

TEST(Aead, AnyChangedBitIsNoticedAndNothingIsShown) {
  const Vector& vector = kVectors[3];
  Aes256Gcm gcm(as_bytes(from_hex(vector.key)));
  auto nonce = array_of<Aes256Gcm::Nonce>(from_hex(vector.nonce));
  auto tag = array_of<Aes256Gcm::Tag>(from_hex(vector.tag));
  std::string bound = from_hex(vector.bound);
  std::string sealed = from_hex(vector.sealed);
  auto opens = [&] {
    std::string out(sealed.size(), 'x');
    bool is_open = gcm.open(nonce, as_bytes(bound), as_bytes(sealed), tag, as_mutable_bytes(out));
    EXPECT_EQ(out == std::string(out.size(), '\0'), !is_open);
    return is_open;
  };
  ASSERT_TRUE(opens());
  for (std::byte& byte : nonce) {
    byte ^= std::byte{1};
    EXPECT_FALSE(opens());
    byte ^= std::byte{1};
  }
  for (std::byte& byte : tag) {
    byte ^= std::byte{0x80};
    EXPECT_FALSE(opens());
    byte ^= std::byte{0x80};
  }
  for (std::string* text : {&bound, &sealed}) {
    for (char& c : *text) {
      c = static_cast<char>(c ^ 4);
      EXPECT_FALSE(opens());
      c = static_cast<char>(c ^ 4);
    }
  }
  EXPECT_TRUE(opens());
}

// FIPS 197, appendix C.3.
TEST(Aead, BlocksAreAes256OfEachBlock) {
  Aes256Blocks blocks(as_bytes(from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")));
  std::string data = from_hex("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
  blocks.apply(as_mutable_bytes(data));
  EXPECT_EQ(hex_of(as_bytes(data)), "8ea2b7ca516745bfeafc49904b4960898ea2b7ca516745bfeafc49904b496089");
  std::string none;
  blocks.apply(as_mutable_bytes(none));
}

}  // namespace
}  // namespace warren
