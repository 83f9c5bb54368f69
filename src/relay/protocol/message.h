// One message as it stands in a file: headers, a blank line, and a body that is any bytes.
//
// Header names are case-insensitive; the first colon splits; lines end with LF or CRLF. Headers we do not know are
// kept as they are. What is read was written by anybody: everything is checked, nothing is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::relay {

inline constexpr int kPriorityDefault = 5;
inline constexpr int kPriorityLowest = 9;
inline constexpr std::size_t kHeaderCount = 64;
inline constexpr std::size_t kRelayHeaders = 8;                               // what the relay may add to a message
inline constexpr std::size_t kHeaderBytes = 8192;                             // of one line
inline constexpr std::uint64_t kMessageBytesMost = std::uint64_t{512} << 20;  // whatever is configured

struct Header {
  std::string name;
  std::string value;

  bool operator==(const Header&) const = default;
};

struct Message {
  std::string to;
  std::string kind = "message";  // lower case
  std::string thread;
  int priority = kPriorityDefault;  // 0 goes first
  std::string checksum;             // "sha256:…" as it was given; verified
  std::string reference;            // of ack and nack: the message that is meant
  bool wants_receipt = false;       // RECEIPT: yes
  std::vector<Header> others;       // in the order they came
  std::string body;

  bool operator==(const Message&) const = default;

  const std::string* find(std::string_view name) const;  // among the others
};

// kInvalid says what is wrong with it; kCorrupt when the body is not what CHECKSUM says.
Result<Message> parse_message(std::string_view text, std::size_t header_count_max = kHeaderCount);

// Headers at their defaults are left out. What parse_message accepted comes back equal.
std::string write_message(const Message& message);

bool is_same_header(std::string_view a, std::string_view b);  // whatever the case

}  // namespace warren::relay
