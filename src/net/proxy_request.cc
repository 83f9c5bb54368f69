#include "net/proxy_request.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren::net {
namespace {

constexpr std::size_t kHeadersMax = 200;
constexpr std::size_t kChunkLineBytes = 256;
constexpr std::size_t kTrailerBytes = std::size_t{8} << 10;

Error bad_request(std::string_view why) { return {Code::kInvalid, fmt::format("bad request: {}", why)}; }

bool is_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c == '\t' || (c >= ' ' && c != 0x7f); });
}

struct Header {
  std::string name;  // in lower case
  std::string_view typed;
  std::string_view value;
};

struct Head {
  std::string_view method;
  std::string_view target;
  std::string_view version;
  std::vector<Header> headers;
};

// Lines end with CR LF only: servers disagree about a lone LF.
Result<Head> split_head(std::string_view text) {
  Head head;
  bool is_first = true;
  while (!text.empty()) {
    std::size_t end = text.find("\r\n");
    if (end == text.npos) return bad_request("a line does not end");
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    if (!is_text(line)) return bad_request("control characters");
    if (line.empty()) break;
    if (is_first) {
      std::size_t one = line.find(' ');
      std::size_t two = line.rfind(' ');
      if (one == line.npos || one == two) return bad_request("not a request line");
      head = {line.substr(0, one), line.substr(one + 1, two - one - 1), line.substr(two + 1), {}};
      is_first = false;
      continue;
    }
    std::size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon))) return bad_request("not a header");
    if (head.headers.size() == kHeadersMax) return bad_request("too many headers");
    head.headers.push_back({to_lower(line.substr(0, colon)), line.substr(0, colon), trimmed(line.substr(colon + 1))});
  }
  bool is_valid = !is_first && is_token(head.method) && (head.version == "HTTP/1.1" || head.version == "HTTP/1.0");
  bool has_blanks = head.target.find_first_of(" \t") != head.target.npos;
  if (!is_valid || has_blanks) return bad_request("not a request line of HTTP/1");
  return head;
}

// Two different lengths, or a length and chunks, are read differently by different servers.
Result<std::optional<std::uint64_t>> body_length(const Head& head) {
  std::optional<std::uint64_t> length;
  bool is_chunked = false;
  for (const Header& header : head.headers) {
    if (header.name == "content-length") {
      std::optional<std::uint64_t> value = parse_number<std::uint64_t>(header.value);
      if (!value || length) return bad_request("content-length");
      length = value;
    } else if (header.name == "transfer-encoding") {
      if (is_chunked || to_lower(header.value) != "chunked") return bad_request("transfer-encoding");
      is_chunked = true;
    }
  }
  if (is_chunked && length) return bad_request("content-length and transfer-encoding");
  if (is_chunked) return std::optional<std::uint64_t>();
  return std::optional(length.value_or(0));
}

// Headers that concern only the connection to us.
std::set<std::string> own_headers(const Head& head) {
  std::set<std::string> names{"host", "connection", "keep-alive",    "proxy-connection", "proxy-authorization",
                              "te",   "upgrade",    "http2-settings"};
  for (const Header& header : head.headers) {
    if (header.name != "connection") continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      std::size_t comma = std::min(rest.find(','), rest.size());
      std::string name = to_lower(trimmed(rest.substr(0, comma)));
      // How long the body is, is not theirs to drop.
      if (name != "content-length" && name != "transfer-encoding") names.insert(std::move(name));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return names;
}

std::string host_header(const HostPort& target) { return target.port == 80 ? target.host.text() : target.text(); }

std::string rewritten(const Head& head, const HostPort& target, std::string_view path) {
  std::string text = fmt::format("{} {} {}\r\nHost: {}\r\n", head.method, path, head.version, host_header(target));
  std::set<std::string> dropped = own_headers(head);
  for (const Header& header : head.headers) {
    if (!dropped.contains(header.name)) text += fmt::format("{}: {}\r\n", header.typed, header.value);
  }
  return text + "Connection: close\r\n\r\n";
}

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }

Error bad_socks() { return {Code::kInvalid, "bad request: not SOCKS5"}; }

}  // namespace

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || is_digit(c) || kMarks.find(c) != kMarks.npos;
  });
}

std::string head_for_proxy(const ProxyRequest& request, const std::string& authorization) {
  std::size_t path = request.head.find(' ') + 1;
  std::string_view end = "\r\n";
  std::string_view rest = std::string_view(request.head).substr(path);
  rest.remove_suffix(end.size());
  std::string text = fmt::format("{}http://{}{}", request.head.substr(0, path), host_header(request.target), rest);
  if (!authorization.empty()) text += fmt::format("Proxy-Authorization: {}\r\n", authorization);
  return text.append(end);
}

Result<ProxyRequest> parse_proxy_request(std::string_view text) {
  Head head = WARREN_TRY(split_head(text));
  ProxyRequest request;
  if (head.method == "CONNECT") {
    request.is_tunnel = true;
    request.target = WARREN_TRY(parse_host_port(head.target));
    return request;
  }
  // A proxy on the way would answer with what it was sent, its own user's password included. Some ignore case.
  std::string method = to_lower(head.method);
  if (method == "trace" || method == "track") return bad_request("TRACE and TRACK");
  constexpr std::string_view kScheme = "http://";
  if (to_lower(head.target.substr(0, kScheme.size())) != kScheme) {
    return Error(Code::kUnsupported, "this is a proxy: it serves http://HOST/PATH and CONNECT HOST:PORT");
  }
  std::string_view rest = head.target.substr(kScheme.size());
  std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view authority = rest.substr(0, end);
  if (authority.find('@') != authority.npos) return bad_request("a user in the address");
  request.target = WARREN_TRY(parse_host_port(authority, 80));
  std::string path(rest.substr(end));
  if (!path.starts_with('/')) path.insert(0, "/");
  if (path.find('#') != path.npos) return bad_request("a fragment in the address");
  request.body_bytes = WARREN_TRY(body_length(head));
  request.head = rewritten(head, request.target, path);
  return request;
}

BodyFrame::BodyFrame(std::optional<std::uint64_t> body_bytes)
    : state_(!body_bytes        ? State::kSize
             : *body_bytes == 0 ? State::kDone
                                : State::kPlain),
      left_(body_bytes.value_or(0)) {}

Status BodyFrame::take_line(std::string_view line) {
  if (!line.ends_with("\r\n")) return bad_request("a chunk");
  line.remove_suffix(2);
  if (state_ == State::kDataEnd) {
    if (!line.empty()) return bad_request("a chunk");
    state_ = State::kSize;
    return Ok{};
  }
  if (state_ == State::kTrailer) {
    if (line.empty()) state_ = State::kDone;
    else if (!is_text(line)) return bad_request("a trailer");
    return Ok{};
  }
  std::string_view digits = trimmed(line.substr(0, line.find(';')));
  bool is_hex = !digits.empty() && digits.size() <= 15 && std::all_of(digits.begin(), digits.end(), is_hex_digit);
  if (!is_hex || !is_text(line)) return bad_request("the size of a chunk");
  left_ = 0;
  auto [last, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), left_, 16);
  if (failed != std::errc()) return bad_request("the size of a chunk");
  state_ = left_ == 0 ? State::kTrailer : State::kData;
  return Ok{};
}

Result<std::size_t> BodyFrame::take(std::string_view bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && state_ != State::kDone) {
    if (state_ == State::kPlain || state_ == State::kData) {
      std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size() - taken));
      taken += count;
      left_ -= count;
      if (left_ == 0) state_ = state_ == State::kPlain ? State::kDone : State::kDataEnd;
      continue;
    }
    char byte = bytes[taken++];
    line_ += byte;
    if (state_ == State::kTrailer && ++trailer_bytes_ > kTrailerBytes) return bad_request("a long trailer");
    if (state_ != State::kTrailer && line_.size() > kChunkLineBytes) return bad_request("the size of a chunk");
    if (byte != '\n') continue;
    std::string line = std::exchange(line_, "");
    WARREN_TRY(take_line(line));
  }
  return taken;
}

Result<std::optional<SocksGreeting>> parse_socks_greeting(std::string_view bytes) {
  if (!bytes.empty() && byte_at(bytes, 0) != 5) return bad_socks();
  if (bytes.size() < 2 || bytes.size() < 2U + byte_at(bytes, 1)) return std::optional<SocksGreeting>();
  std::string_view methods = bytes.substr(2, byte_at(bytes, 1));
  return std::optional(SocksGreeting{2 + methods.size(), methods.find('\0') != methods.npos});
}

Result<std::optional<SocksRequest>> parse_socks_request(std::string_view bytes) {
  if (!bytes.empty() && byte_at(bytes, 0) != 5) return bad_socks();
  if (bytes.size() < 5) return std::optional<SocksRequest>();
  std::uint8_t type = byte_at(bytes, 3);
  if (byte_at(bytes, 2) != 0 || (type != 1 && type != 3 && type != 4)) return bad_socks();
  std::size_t start = type == 3 ? 5 : 4;
  std::size_t length = type == 1 ? 4 : type == 4 ? 16 : byte_at(bytes, 4);
  if (bytes.size() < start + length + 2) return std::optional<SocksRequest>();
  SocksRequest request{.size = start + length + 2, .is_connect = byte_at(bytes, 1) == 1, .target = {}};
  std::string_view host = bytes.substr(start, length);
  if (type == 3) {
    request.target.host = WARREN_TRY(parse_host(host));
  } else {
    Address address = type == 1 ? Address::v4(reinterpret_cast<const std::uint8_t*>(host.data()))
                                : Address::v6(reinterpret_cast<const std::uint8_t*>(host.data()));
    request.target.host = {address.text(), address};
  }
  request.target.port =
      static_cast<std::uint16_t>(byte_at(bytes, start + length) << 8 | byte_at(bytes, start + length + 1));
  if (request.target.port == 0) return bad_socks();
  return std::optional(std::move(request));
}

}  // namespace warren::net
