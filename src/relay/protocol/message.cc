#include "relay/protocol/message.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "crypto/digest.h"

namespace warren::relay {
namespace {

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

bool is_header_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f && c != ':'; });
}

Error invalid(std::string message) { return {Code::kInvalid, std::move(message)}; }

Result<Header> split_header(std::string_view line) {
  if (line.size() > kHeaderBytes) return invalid(fmt::format("a header line has more than {} bytes", kHeaderBytes));
  std::size_t colon = line.find(':');
  if (colon == line.npos) return invalid(fmt::format("a header line has no colon: {}", quote(line.substr(0, 80))));
  std::string_view name = trimmed(line.substr(0, colon));
  std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_header_name(name)) return invalid(fmt::format("{} is not a valid header name", quote(name.substr(0, 80))));
  if (std::any_of(value.begin(), value.end(), is_control)) {
    return invalid(fmt::format("the value of {} contains a control character", quote(name)));
  }
  return Header{std::string(name), std::string(value)};
}

Result<int> parse_priority(std::string_view value) {
  if (value.size() == 1 && value[0] >= '0' && value[0] <= '9') return value[0] - '0';
  return invalid(fmt::format("PRIORITY must be 0 to {}, not {}", kPriorityLowest, quote(value)));
}

Result<std::string> parse_kind(std::string_view value) {
  bool is_word = !value.empty() && value.size() <= 32 && std::all_of(value.begin(), value.end(), [](char c) {
    return to_lower(c) >= 'a' && to_lower(c) <= 'z';
  });
  if (!is_word) return invalid(fmt::format("KIND must be one word, not {}", quote(value)));
  return to_lower(value);
}

Result<bool> parse_receipt(std::string_view value) {
  std::string word = to_lower(value);
  if (word == "yes" || word == "no") return word == "yes";
  return invalid(fmt::format("RECEIPT must be yes or no, not {}", quote(value)));
}

// The known headers seen so far: each may occur only once.
struct Seen {
  std::vector<std::string> names;

  Status note(std::string_view name) {
    std::string word = to_lower(name);
    if (std::find(names.begin(), names.end(), word) != names.end()) {
      return invalid(fmt::format("duplicate header {}", quote(name)));
    }
    names.push_back(std::move(word));
    return Ok{};
  }
};

Result<bool> take_known(Message& message, const Header& header) {
  if (is_same_header(header.name, "TO")) {
    message.to = header.value;
  } else if (is_same_header(header.name, "KIND")) {
    message.kind = WARREN_TRY(parse_kind(header.value));
  } else if (is_same_header(header.name, "THREAD")) {
    message.thread = header.value;
  } else if (is_same_header(header.name, "PRIORITY")) {
    message.priority = WARREN_TRY(parse_priority(header.value));
  } else if (is_same_header(header.name, "CHECKSUM")) {
    message.checksum = header.value;
  } else if (is_same_header(header.name, "REFERENCE")) {
    message.reference = header.value;
  } else if (is_same_header(header.name, "RECEIPT")) {
    message.wants_receipt = WARREN_TRY(parse_receipt(header.value));
  } else {
    return false;
  }
  return true;
}

Status verify_checksum(const Message& message) {
  if (message.checksum.empty()) return Ok{};
  constexpr std::string_view kAlgorithm = "sha256:";
  if (to_lower(message.checksum.substr(0, kAlgorithm.size())) != kAlgorithm) {
    return invalid(fmt::format("CHECKSUM must be sha256:…, not {}", quote(message.checksum.substr(0, 80))));
  }
  if (to_lower(message.checksum.substr(kAlgorithm.size())) != sha256_hex(as_bytes(message.body))) {
    return Error(Code::kCorrupt, "the body does not match CHECKSUM");
  }
  return Ok{};
}

// Omits the space after the colon where it would make the line too long.
void add_header(std::string& out, std::string_view name, std::string_view value) {
  bool has_space = !value.empty() && name.size() + 2 + value.size() <= kHeaderBytes;
  out.append(name).append(has_space ? ": " : ":").append(value).append("\n");
}

}  // namespace

bool is_same_header(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return to_lower(x) == to_lower(y); });
}

const std::string* Message::find(std::string_view name) const {
  for (const Header& header : others) {
    if (is_same_header(header.name, name)) return &header.value;
  }
  return nullptr;
}

Result<Message> parse_message(std::string_view text, std::size_t header_count_max) {
  Message message;
  Seen seen;
  for (std::size_t count = 0;; ++count) {
    std::size_t end = text.find('\n');
    if (end == text.npos) return invalid("there is no blank line after the headers");
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) break;
    if (count == header_count_max) return invalid(fmt::format("there are more than {} headers", header_count_max));
    Header header = WARREN_TRY(split_header(line));
    if (WARREN_TRY(take_known(message, header))) {
      WARREN_TRY(seen.note(header.name));
    } else {
      message.others.push_back(std::move(header));
    }
  }
  if (message.to.empty()) return invalid("there is no header 'TO'");
  message.body = text;
  WARREN_TRY(verify_checksum(message));
  return message;
}

std::string write_message(const Message& message) {
  std::string out;
  out.reserve(message.body.size() + 256);
  add_header(out, "TO", message.to);
  if (message.kind != "message") add_header(out, "KIND", message.kind);
  if (!message.thread.empty()) add_header(out, "THREAD", message.thread);
  if (message.priority != kPriorityDefault) add_header(out, "PRIORITY", std::to_string(message.priority));
  if (!message.checksum.empty()) add_header(out, "CHECKSUM", message.checksum);
  if (!message.reference.empty()) add_header(out, "REFERENCE", message.reference);
  if (message.wants_receipt) add_header(out, "RECEIPT", "yes");
  for (const Header& header : message.others) add_header(out, header.name, header.value);
  out += '\n';
  out += message.body;
  return out;
}

}  // namespace warren::relay
