// The file format of a message: headers, a blank line, and a body of arbitrary bytes.
//
// Header names are case-insensitive and end at the first colon; lines end with LF or CRLF. Unknown headers are kept
// unchanged. Message files are untrusted input: everything is checked.
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
inline constexpr std::size_t kRelayHeaders = 8;                               // how many the relay may add to a message
inline constexpr std::size_t kHeaderBytes = 8192;                             // per line
inline constexpr std::uint64_t kMessageBytesMost = std::uint64_t{512} << 20;  // upper bound of the configured limit

struct Header {
  std::string name;
  std::string value;

  bool operator==(const Header&) const = default;
};

struct Message {
  std::string to;
  std::string kind = "message";  // lower case
  std::string thread;
  int priority = kPriorityDefault;  // 0 is delivered first
  std::string checksum;             // "sha256:…" as given; verified
  std::string reference;            // in an ack or nack: the message it answers
  bool wants_receipt = false;       // RECEIPT: yes
  std::vector<Header> others;       // in their original order
  std::string body;

  bool operator==(const Message&) const = default;

  const std::string* find(std::string_view name) const;  // among the others
};

// kInvalid: ill-formed; kCorrupt: the body does not match CHECKSUM.
Result<Message> parse_message(std::string_view text, std::size_t header_count_max = kHeaderCount);

// Omits headers with default values. parse_message() reads back an equal message.
std::string write_message(const Message& message);

bool is_same_header(std::string_view a, std::string_view b);  // ignores case

}  // namespace warren::relay
