// Generated and mutated messages: the parser never crashes, and every accepted message survives being written and read
// back. WARREN_CHECK_FULL=yes tries many more; WARREN_FUZZ_SEED=N repeats a failed run.
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "crypto/digest.h"
#include "relay/protocol/attachment.h"
#include "relay/protocol/message.h"
#include "relay/protocol/names.h"
#include "testing/matchers.h"

namespace warren::relay {
namespace {

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return random_() % count; }
  bool one_in(std::size_t count) { return below(count) == 0; }

  std::string valid_message() {
    std::string eol = one_in(3) ? "\r\n" : "\n";
    std::string body = value(one_in(4) ? 5000 : 80) + (one_in(2) ? "\n\nTO: body\n" : "");
    std::vector<std::string> lines = {cased("to") + separator() +
                                      pick({"bob", "*", "#news", "Lead", "__orchestrator__"})};
    if (one_in(2)) lines.push_back(cased("kind") + separator() + cased(pick({"message", "ack", "spawn", "status"})));
    if (one_in(3)) lines.push_back(cased("priority") + separator() + std::to_string(below(10)));
    if (one_in(3)) lines.push_back(cased("thread") + separator() + header_value());
    if (one_in(3)) lines.push_back(cased("receipt") + separator() + pick({"yes", "no", "YES"}));
    if (one_in(3)) lines.push_back(cased("reference") + separator() + "bob/1-deadbeef");
    if (one_in(3)) lines.push_back(cased("checksum") + separator() + "sha256:" + sha256_hex(as_bytes(body)));
    for (std::size_t count = below(4); count > 0; --count)
      lines.push_back("X-" + cased("own") + separator() + header_value());
    for (std::size_t count = one_in(3) ? below(18) : 0; count > 0; --count) {
      lines.push_back(cased("attachment") + separator() + "sha256:" + sha256_hex(as_bytes(value(4))) +
                      (one_in(2) ? " " + header_value() : ""));
    }
    if (one_in(20)) {
      std::string line = "X-Long" + separator();
      lines.push_back(line + std::string(kHeaderBytes - line.size(), 'x'));
    }
    std::shuffle(lines.begin(), lines.end(), random_);
    std::string out;
    for (const std::string& line : lines) out += line + eol;
    return out + eol + body;
  }

  // Small damage as a hostile or broken writer causes it.
  void mutate(std::string& text) {
    static const std::vector<std::string> kPieces = {"\n",       "\r\n",     "\r",   ":",    "\0",
                                                     "TO: x\n",  "to:y\r\n", "\n\n", "\x7f", "\xff\xfe",
                                                     "CHECKSUM", "\t: ",     " ",    "\n ",  "sha256:"};
    std::size_t at = below(text.size() + 1);
    switch (below(7)) {
      case 0: text.insert(at, kPieces[below(kPieces.size())]); break;
      case 1: text.resize(at); break;
      case 2: text.erase(at, below(20)); break;
      case 3: text.insert(at, text.substr(below(text.size() + 1), below(60))); break;
      case 4: text.insert(at, std::string(below(12'000), static_cast<char>(random_()))); break;
      case 5: {
        std::size_t end = text.find('\n', at);
        if (end != text.npos) text.insert(end + 1, text.substr(0, text.find('\n') + 1));
        break;
      }
      default:
        if (at < text.size()) text[at] = static_cast<char>(random_());
    }
  }

 private:
  std::string pick(std::initializer_list<const char*> words) { return words.begin()[below(words.size())]; }
  std::string separator() { return pick({":", ": ", ":\t ", " : "}); }
  std::string cased(std::string word) {
    for (char& c : word) {
      if (one_in(2) && c >= 'a' && c <= 'z') c = static_cast<char>(c - ('a' - 'A'));
    }
    return word;
  }
  std::string value(std::size_t most) {
    std::string out(below(most + 1), '\0');
    for (char& c : out) c = static_cast<char>(random_());
    return out;
  }
  std::string header_value() {
    std::string out = value(20);
    for (char& c : out) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = 'x';
    }
    return out;
  }

  std::mt19937_64 random_;
};

std::optional<std::uint64_t> only_seed() {
  const char* text = std::getenv("WARREN_FUZZ_SEED");
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

bool is_full_check() {
  const char* full = std::getenv("WARREN_CHECK_FULL");
  return full != nullptr && std::string_view(full) == "yes";
}

TEST(MessageFuzz, GeneratedMessagesAreAcceptedAndReadBackEqual) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Fuzzer fuzzer(seed);
    std::string text = fuzzer.valid_message();
    Result<Message> read = parse_message(text);
    ASSERT_OK(read) << seed;
    ASSERT_EQ(text.substr(text.size() - read->body.size()), read->body) << seed;
    Result<Message> again = parse_message(write_message(*read));
    ASSERT_OK(again) << seed;
    ASSERT_EQ(*again, *read) << seed;
  }
}

TEST(MessageFuzz, MutatedMessagesAreRefusedOrReadBackEqual) {
  std::optional<std::uint64_t> only = only_seed();
  std::uint64_t first = only.value_or(1);
  std::uint64_t count = only ? 1 : is_full_check() ? 3'000'000 : 10'000;
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Fuzzer fuzzer(seed);
    std::string text = fuzzer.valid_message();
    for (std::size_t changes = 1 + fuzzer.below(4); changes > 0; --changes) fuzzer.mutate(text);
    Result<Message> read = parse_message(text);
    if (!read.ok()) {
      Code code = read.error().code();
      ASSERT_TRUE(code == Code::kInvalid || code == Code::kCorrupt) << "seed " << seed;
      continue;
    }
    ++accepted;
    ASSERT_FALSE(read->to.empty()) << "seed " << seed;
    ASSERT_LE(read->others.size(), kHeaderCount) << "seed " << seed;
    std::string written = write_message(*read);
    Result<Message> again = parse_message(written);
    ASSERT_OK(again) << "seed " << seed;
    ASSERT_EQ(*again, *read) << "seed " << seed;
    ASSERT_EQ(write_message(*again), written) << "seed " << seed;
    Result<std::vector<Attachment>> attachments = attachments_of(*read);
    if (!attachments.ok()) continue;
    for (const Attachment& one : *attachments) {
      ASSERT_TRUE(is_attachment_hash(one.hash) && one.hash.find('/') == one.hash.npos) << "seed " << seed;
      ASSERT_TRUE(one.name.empty() || is_attachment_name(one.name)) << "seed " << seed;
      ASSERT_EQ(*parse_attachment(write_attachment(one)), one) << "seed " << seed;
    }
  }
  EXPECT_GE(accepted, only ? 0 : count / 20);
}

}  // namespace
}  // namespace warren::relay
