#include "store/record/audit_row.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"

namespace warren {
namespace {

constexpr std::string_view kKeyPurpose = "warren audit key id";
constexpr std::string_view kHashVersion = "warren-audit-1";

// "3:abc,": a value can neither run into the next one nor be mistaken for a missing one.
void add_field(std::string& out, std::string_view value) {
  fmt::format_int length(value.size());
  out.append(length.data(), length.size()).push_back(':');
  out.append(value).push_back(',');
}

template <class Number>
void add_number(std::string& out, Number value) {
  fmt::format_int digits(value);
  add_field(out, {digits.data(), digits.size()});
}

void add_missing(std::string& out) { out += "-,"; }

void add_optional(std::string& out, std::string_view value) {
  value.empty() ? add_missing(out) : add_field(out, value);
}

// A line of JSON, or only its length: each event's is needed when it is appended, and its text when somebody reads it.
struct LineText {
  std::string out;
  void add(std::string_view text) { out += text; }
  void add_hex(Bytes bytes) { out += hex_of(bytes); }
  void add_time(std::int64_t at_us) { out += format_audit_time(at_us); }
};
struct LineLength {
  std::size_t bytes = 0;
  void add(std::string_view text) { bytes += text.size(); }
  void add_hex(Bytes data) { bytes += data.size() * 2; }
  void add_time(std::int64_t at_us) {
    constexpr std::int64_t kYear10000 = 253'402'300'800'000'000;
    bytes += at_us >= 0 && at_us < kYear10000 ? std::string_view("2026-01-26T10:00:00.000000Z").size()
                                              : format_audit_time(at_us).size();
  }
};

bool is_plain(char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

// Bytes that are not UTF-8 become U+FFFD, since JSON cannot carry them.
template <class Line>
void add_json_text(Line& line, std::string_view text) {
  line.add("\"");
  while (!text.empty()) {
    auto end = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
    line.add(text.substr(0, end));
    text.remove_prefix(end);
    if (text.empty()) break;
    auto byte = static_cast<unsigned char>(text[0]);
    std::size_t length = byte < 0x80 ? 1 : utf8_length(text);
    if (byte == '"' || byte == '\\') {
      line.add("\\");
      line.add(text.substr(0, 1));
    } else if (byte < 0x80) {
      line.add(fmt::format("\\u{:04x}", byte));
    } else if (length == 0) {
      line.add("\xef\xbf\xbd");
      length = 1;
    } else {
      line.add(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  line.add("\"");
}

template <class Line>
void add_json_member(Line& line, std::string_view name, std::string_view text) {
  line.add(",\"");
  line.add(name);
  line.add("\":");
  add_json_text(line, text);
}

// Names are bytes: one that is not UTF-8 is also there in hexadecimal digits.
template <class Line>
void add_json_path(Line& line, std::string_view name, std::string_view path) {
  add_json_member(line, name, path);
  if (is_utf8(path)) return;
  line.add(",\"");
  line.add(name);
  line.add("_hex\":\"");
  line.add_hex(as_bytes(path));
  line.add("\"");
}

template <class Line, class Number>
void add_json_number(Line& line, std::string_view name, Number value) {
  fmt::format_int digits(value);
  line.add(",\"");
  line.add(name);
  line.add("\":");
  line.add({digits.data(), digits.size()});
}

template <class Line>
void add_line(Line& line, const AuditRow& row) {
  const AuditEvent& event = row.event;
  line.add("{\"ts\":\"");
  line.add_time(event.at_us);
  line.add("\"");
  add_json_member(line, "agent_id", event.agent);
  add_json_member(line, "op", event.op);
  add_json_path(line, "path", event.path);
  if (event.to) add_json_path(line, "to", *event.to);
  if (event.size_bytes) add_json_number(line, "size_bytes", *event.size_bytes);
  line.add(event.ok ? ",\"ok\":true" : ",\"ok\":false");
  if (!event.err.empty()) add_json_member(line, "err", event.err);
  if (!event.trace.empty()) add_json_member(line, "trace_id", event.trace);
  add_json_member(line, "door", event.door);
  add_json_member(line, "space", event.space);
  if (!event.session.empty()) add_json_member(line, "session", event.session);
  add_json_number(line, "seq", row.seq);
  add_json_member(line, "key", row.key);
  line.add(",\"prev\":\"");
  line.add_hex(row.prev);
  line.add("\",\"hash\":\"");
  line.add_hex(row.hash);
  line.add("\"}\n");
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
  LineText line;
  add_line(line, row);
  return std::move(line.out);
}

std::size_t audit_line_bytes(const AuditRow& row) {
  LineLength line;
  add_line(line, row);
  return line.bytes;
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
