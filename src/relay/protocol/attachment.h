// ATTACHMENT headers: what a message refers to in the content-addressed store.
//
//   ATTACHMENT: sha256:HEX            a file of the store by its content
//   ATTACHMENT: sha256:HEX notes.txt  and what its sender calls it
//
// Such a header may come several times. The name is a suggestion by somebody else: it names a file in a directory the
// receiver chooses, and nothing more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "relay/protocol/message.h"

namespace warren::relay {

inline constexpr std::size_t kAttachmentCount = 16;  // of one message
inline constexpr std::string_view kAttachmentHeader = "ATTACHMENT";

struct Attachment {
  std::string hash;  // 64 digits, lower case
  std::string name;  // "": none

  bool operator==(const Attachment&) const = default;
};

// What a file was when it was hashed. Any change to it shows here.
struct FileIdentity {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;

  bool operator==(const FileIdentity&) const = default;
  // The same but for what renaming and changing permissions do.
  bool has_same_content_as(const FileIdentity& other) const {
    return inode == other.inode && size == other.size && mtime_ns == other.mtime_ns;
  }
};

// What the ledger knows of one file of the store.
struct AttachmentRow {
  std::string hash;
  FileIdentity identity;
  bool is_verified = false;                // it was hashed, and is what its name says
  std::int64_t unreferenced_since_us = 0;  // wall time; 0: there is a reference, or nobody has looked yet
  bool is_referenced = false;
};

struct AttachmentReference {
  std::string hash;
  std::string message_id;
  bool is_open = false;  // a delivery is to be read yet, or a dead letter may be tried again
};

bool is_attachment_hash(std::string_view text);
// One that may be given to a file without surprises: no '/', no control characters, not hidden, no option.
bool is_attachment_name(std::string_view name);

Result<Attachment> parse_attachment(std::string_view value);  // kInvalid
std::string write_attachment(const Attachment& attachment);
inline std::string reference_of(std::string_view hash) { return "sha256:" + std::string(hash); }

// In the order they came. kInvalid if one is ill-formed or there are too many.
Result<std::vector<Attachment>> attachments_of(const Message& message);

}  // namespace warren::relay
