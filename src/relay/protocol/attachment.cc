#include "relay/protocol/attachment.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/limits.h"
#include "base/path.h"

namespace warren::relay {
namespace {

constexpr std::string_view kHashAlgorithm = "sha256:";
constexpr std::size_t kHashDigits = 64;

}  // namespace

bool is_attachment_hash(std::string_view text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), is_lower_hex_digit);
}

bool is_attachment_name(std::string_view name) {
  if (name.empty() || name.size() > limits::kNameBytes || name.front() == '.' || name.front() == '-') return false;
  if (name.front() == ' ' || name.back() == ' ') return false;  // header values are trimmed
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '/'; });
}

Result<Attachment> parse_attachment(std::string_view value) {
  std::size_t end = std::min(value.find(' '), value.size());
  std::string word = to_lower(value.substr(0, end));
  Attachment out;
  if (word.starts_with(kHashAlgorithm)) out.hash = word.substr(kHashAlgorithm.size());
  if (!is_attachment_hash(out.hash)) {
    return Error(Code::kInvalid,
                 fmt::format("ATTACHMENT must be 'sha256:' and 64 hex digits, not {}", quote(value.substr(0, 80))));
  }
  if (end == value.size()) return out;
  out.name = value.substr(end + 1);
  if (!is_attachment_name(out.name)) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid attachment name", quote(out.name.substr(0, 80))));
  }
  return out;
}

std::string write_attachment(const Attachment& attachment) {
  std::string out = reference_of(attachment.hash);
  if (!attachment.name.empty()) out.append(" ").append(attachment.name);
  return out;
}

Result<std::vector<Attachment>> attachments_of(const Message& message) {
  std::vector<Attachment> found;
  for (const Header& header : message.others) {
    if (!is_same_header(header.name, kAttachmentHeader)) continue;
    if (found.size() == kAttachmentCount) {
      return Error(Code::kInvalid, fmt::format("there are more than {} attachments", kAttachmentCount));
    }
    Attachment attachment = WARREN_TRY(parse_attachment(header.value));
    found.push_back(std::move(attachment));
  }
  return found;
}

}  // namespace warren::relay
