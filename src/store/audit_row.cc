#include "store/audit_row.h"

#include <ctime>

#include <fmt/format.h>

#include "base/utf8.h"

namespace warren {
namespace {

constexpr std::string_view kKeyPurpose = "warren audit key id";
constexpr std::string_view kHashVersion = "warren-audit-1";

// "3:abc,": a value can neither run into the next one nor be mistaken for a missing one.
void add_field(std::string& out, std::string_view value) {
  fmt::format_to(std::back_inserter(out), "{}:", value.size());
  out.append(value).push_back(',');
}

template <class Number>
void add_number(std::string& out, Number value) {
  add_field(out, fmt::format_int(value).c_str());
}

void add_missing(std::string& out) { out += "-,"; }

void add_optional(std::string& out, std::string_view value) {
  value.empty() ? add_missing(out) : add_field(out, value);
}

// Bytes that are not UTF-8 become U+FFFD, since JSON cannot carry them.
void add_json_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    auto byte = static_cast<unsigned char>(text[0]);
    std::size_t length = byte < 0x80 ? 1 : utf8_length(text);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[0];
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else if (length == 0) {
      out += "\xef\xbf\xbd";
      length = 1;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void add_json_member(std::string& out, std::string_view name, std::string_view text) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":", name);
  add_json_text(out, text);
}

// Names are bytes: one that is not UTF-8 is also there in hexadecimal digits.
void add_json_path(std::string& out, std::string_view name, std::string_view path) {
  add_json_member(out, name, path);
  if (!is_utf8(path)) fmt::format_to(std::back_inserter(out), ",\"{}_hex\":\"{}\"", name, hex_of(as_bytes(path)));
}

}  // namespace

AuditKey make_audit_key(std::string bytes) {
  AuditHash value = hmac_sha256(as_bytes(bytes), as_bytes(kKeyPurpose));
  return {.id = hex_of(value).substr(0, 16), .bytes = std::move(bytes)};
}

std::string format_audit_time(std::int64_t at_us) {
  std::int64_t seconds = at_us / 1'000'000;
  std::int64_t rest = at_us % 1'000'000;
  if (rest < 0) {
    rest += 1'000'000;
    --seconds;
  }
  auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return std::to_string(at_us);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, rest);
}

std::string_view audit_error_name(Code code) {
  return code == Code::kDenied || code == Code::kNotPermitted ? "permission_denied" : name_of(code);
}

std::string audit_line(const AuditRow& row) {
  const AuditEvent& event = row.event;
  std::string out = fmt::format("{{\"ts\":\"{}\"", format_audit_time(event.at_us));
  add_json_member(out, "agent_id", event.agent);
  add_json_member(out, "op", event.op);
  add_json_path(out, "path", event.path);
  if (event.to) add_json_path(out, "to", *event.to);
  if (event.size_bytes) fmt::format_to(std::back_inserter(out), ",\"size_bytes\":{}", *event.size_bytes);
  out += event.ok ? ",\"ok\":true" : ",\"ok\":false";
  if (!event.err.empty()) add_json_member(out, "err", event.err);
  if (!event.trace.empty()) add_json_member(out, "trace_id", event.trace);
  add_json_member(out, "door", event.door);
  add_json_member(out, "space", event.space);
  if (!event.session.empty()) add_json_member(out, "session", event.session);
  fmt::format_to(std::back_inserter(out), ",\"seq\":{}", row.seq);
  add_json_member(out, "key", row.key);
  fmt::format_to(std::back_inserter(out), ",\"prev\":\"{}\",\"hash\":\"{}\"}}\n", hex_of(row.prev), hex_of(row.hash));
  return out;
}

AuditHash hash_audit_row(const AuditRow& row, HmacSha256& hmac) {
  const AuditEvent& event = row.event;
  std::string message;
  message.reserve(256 + event.path.size());
  add_field(message, kHashVersion);
  add_field(message, as_text(row.prev));
  add_number(message, row.seq);
  add_number(message, event.at_us);
  add_field(message, event.agent);
  add_field(message, event.op);
  add_field(message, event.path);
  if (event.to) add_field(message, *event.to);
  else add_missing(message);
  if (event.size_bytes) add_number(message, *event.size_bytes);
  else add_missing(message);
  add_number(message, event.ok ? 1 : 0);
  for (const std::string* text : {&event.err, &event.trace}) add_optional(message, *text);
  add_field(message, event.door);
  add_field(message, event.space);
  add_optional(message, event.session);
  add_number(message, row.end_bytes);
  add_field(message, row.key);
  return hmac.sign(as_bytes(message));
}

}  // namespace warren
