// One event of the audit trail, and how it is chained to the one before: what wr_audit stores (docs/format.md, WR-41).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"

namespace warren {

// What somebody did, or was refused.
struct AuditEvent {
  std::int64_t at_us = 0;
  std::string agent;
  std::string op;                 // "read", "write", "delete", …
  std::string path;               // bytes
  std::optional<std::string> to;  // the second path of a rename, link or copy
  std::optional<std::uint64_t> size_bytes;
  bool ok = true;
  std::string err;    // "" if it succeeded; "permission_denied", "not_found", …
  std::string trace;  // may be empty, like the two below
  std::string door;   // "vfs", "mount", "run", …
  std::string space;  // "user" or "kernel"
  std::string session;

  bool operator==(const AuditEvent&) const = default;
};

inline constexpr std::string_view kExpiryDoor = "expiry";  // of what ends by itself
inline constexpr std::string_view kCheckpointDoor = "checkpoint";
inline constexpr std::string_view kKeyChangedOp = "key";  // of the event before the first row of another key

using AuditHash = Sha256::Value;

struct AuditRow {
  AuditEvent event;
  std::int64_t seq = 0;         // 1, 2, 3, …
  std::uint64_t end_bytes = 0;  // where its line ends in /audit/events.jsonl
  std::string key;              // the id of the key that its hash was made with
  AuditHash prev{};             // the hash of the row before; zeros in the first
  AuditHash hash{};

  bool operator==(const AuditRow&) const = default;
};

// A secret of the operator's. New events are hashed with the first of several; the others are for rows made before.
struct AuditKey {
  std::string id;  // derived from the key, and no secret
  std::string bytes;
};
using AuditKeys = std::vector<AuditKey>;
using LoadAuditKeys = std::function<Result<AuditKeys>()>;

AuditKey make_audit_key(std::string bytes);

// The event as one line of JSON with its line end: /audit/events.jsonl and `warren audit export`. Its length does not
// depend on the two hashes.
std::string audit_line(const AuditRow& row);
std::size_t audit_line_bytes(const AuditRow& row);  // its length, without making it

// The hash of the row, from all of its fields but `hash`.
AuditHash hash_audit_row(const AuditRow& row, HmacSha256& hmac);

// The name of an error as events have it. A refusal is "permission_denied", as in the specification.
std::string_view audit_error_name(Code code);

std::string format_audit_time(std::int64_t at_us);  // "2026-01-26T10:00:00.000000Z"

}  // namespace warren
