// ATTACHMENT headers: references from a message to files in the content-addressed store.
//
//   ATTACHMENT: sha256:HEX            a file in the store, by its content
//   ATTACHMENT: sha256:HEX notes.txt  the same with the sender's file name
//
// The header may be repeated. The name is untrusted: it is only ever used for a file in a directory that the receiver
// chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "relay/protocol/message.h"

namespace warren::relay {

inline constexpr std::size_t kAttachmentCount = 16;  // per message
inline constexpr std::string_view kAttachmentHeader = "ATTACHMENT";

struct Attachment {
  std::string hash;  // 64 lower-case hex digits
  std::string name;  // empty: none

  bool operator==(const Attachment&) const = default;
};

// Identifies a file's state when it was hashed. Any change to the file changes it.
struct FileIdentity {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;

  bool operator==(const FileIdentity&) const = default;
  // Ignores changes by renaming or changing permissions.
  bool has_same_content_as(const FileIdentity& other) const {
    return inode == other.inode && size == other.size && mtime_ns == other.mtime_ns;
  }
};

// The ledger's record of a file in the store.
struct AttachmentRow {
  std::string hash;
  FileIdentity identity;
  bool is_verified = false;                // the file was hashed and matches its name
  std::int64_t unreferenced_since_us = 0;  // wall time; 0: referenced, or not checked yet
  bool is_referenced = false;
};

struct AttachmentReference {
  std::string hash;
  std::string message_id;
  bool is_open = false;  // a delivery is still unread, or its dead letter may be retried
};

bool is_attachment_hash(std::string_view text);
// Safe as a file name: no '/' or control characters, does not start with '.', '-' or a space.
bool is_attachment_name(std::string_view name);

Result<Attachment> parse_attachment(std::string_view value);  // kInvalid
std::string write_attachment(const Attachment& attachment);
inline std::string reference_of(std::string_view hash) { return "sha256:" + std::string(hash); }

// In the order of the headers. kInvalid: one is ill-formed, or there are too many.
Result<std::vector<Attachment>> attachments_of(const Message& message);

}  // namespace warren::relay
