#include "text/diff/git_binary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

namespace warren {
namespace {

using Sha1State = std::array<std::uint32_t, 5>;
constexpr std::size_t kSha1Block = 64;

// One block of FIPS 180-4. Here it only names content, and git's own collision check is git's.
void add_sha1_block(Sha1State& state, const unsigned char* block) {
  std::array<std::uint32_t, 80> words{};
  for (std::size_t i = 0; i < 16; ++i) {
    words[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
               std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  }
  for (std::size_t i = 16; i < 80; ++i)
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint32_t mix = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
    std::uint32_t constant = i < 20 ? 0x5a827999U : i < 40 ? 0x6ed9eba1U : i < 60 ? 0x8f1bbcdcU : 0xca62c1d6U;
    std::uint32_t next = std::rotl(a, 5) + mix + e + constant + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d, state[4] + e};
}

void add_big_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xffU);
}

void add_little_endian16(std::string& out, std::size_t value) {
  out += static_cast<char>(value & 0xffU);
  out += static_cast<char>(value >> 8 & 0xffU);
}

std::uint32_t adler32(std::string_view data) {
  constexpr std::uint32_t kModulus = 65521;
  constexpr std::size_t kRun = 5552;  // bytes before the sums could overflow
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  while (!data.empty()) {
    for (char c : data.substr(0, kRun)) high += low += static_cast<unsigned char>(c);
    low %= kModulus;
    high %= kModulus;
    data.remove_prefix(std::min(data.size(), kRun));
  }
  return high << 16 | low;
}

// A zlib stream of stored blocks.
std::string stored_stream(std::string_view data) {
  constexpr std::size_t kStoredMax = 65535;
  std::string out = "\x78\x01";
  std::string_view rest = data;
  do {
    std::size_t size = std::min(rest.size(), kStoredMax);
    out += static_cast<char>(size == rest.size() ? 1 : 0);
    add_little_endian16(out, size);
    add_little_endian16(out, ~size);
    out += rest.substr(0, size);
    rest.remove_prefix(size);
  } while (!rest.empty());
  add_big_endian(out, adler32(data), 4);
  return out;
}

// One line: its length as a letter, then five digits for every four bytes.
void add_base85_line(std::string& out, std::string_view bytes) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
  out += static_cast<char>(bytes.size() <= 26 ? 'A' + bytes.size() - 1 : 'a' + bytes.size() - 27);
  for (std::size_t at = 0; at < bytes.size(); at += 4) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    std::array<char, 5> digits{};
    for (std::size_t i = digits.size(); i > 0; --i, group /= 85) digits[i - 1] = kDigits[group % 85];
    out.append(digits.data(), digits.size());
  }
  out += '\n';
}

std::string literal(std::string_view content) {
  constexpr std::size_t kLineBytes = 52;
  std::string stream = stored_stream(content);
  std::string out = fmt::format("literal {}\n", content.size());
  out.reserve(stream.size() / 4 * 5 + stream.size() / 20 + 64);
  for (std::string_view rest = stream; !rest.empty(); rest.remove_prefix(std::min(rest.size(), kLineBytes)))
    add_base85_line(out, rest.substr(0, kLineBytes));
  return out += '\n';
}

}  // namespace

std::string git_blob_id(std::string_view content) {
  std::string head = fmt::format("blob {}", content.size()) + '\0';
  Sha1State state{0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U};
  std::size_t taken = std::min(content.size(), kSha1Block - head.size());  // the head is shorter than a block
  std::string part = head + std::string(content.substr(0, taken));
  std::uint64_t bits = (head.size() + content.size()) * 8;
  content.remove_prefix(taken);
  if (part.size() == kSha1Block) {
    add_sha1_block(state, reinterpret_cast<const unsigned char*>(part.data()));
    part.clear();
  }
  for (; part.empty() && content.size() >= kSha1Block; content.remove_prefix(kSha1Block))
    add_sha1_block(state, reinterpret_cast<const unsigned char*>(content.data()));
  part += content;
  part += '\x80';
  part.resize(part.size() <= kSha1Block - 8 ? kSha1Block - 8 : 2 * kSha1Block - 8, '\0');
  add_big_endian(part, bits, 8);
  for (std::size_t at = 0; at < part.size(); at += kSha1Block)
    add_sha1_block(state, reinterpret_cast<const unsigned char*>(part.data() + at));
  return fmt::format("{:08x}{:08x}{:08x}{:08x}{:08x}", state[0], state[1], state[2], state[3], state[4]);
}

std::string git_binary_patch(std::string_view before, std::string_view after) {
  return "GIT binary patch\n" + literal(after) + literal(before);
}

}  // namespace warren
