#include "clients/url.h"

#include <fmt/format.h>

#include <charconv>

#include "base/ascii.h"
#include "base/path.h"
#include "base/percent.h"

namespace warren {
namespace {

Error bad_url(std::string_view what) { return Error(Code::kInvalid, fmt::format("the URL {}", what)); }

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

Result<std::string> parse_scheme(std::string_view text) {
  std::string scheme = to_lower(text);
  if (scheme.empty() || scheme.front() < 'a' || scheme.front() > 'z')
    return bad_url("does not begin with a scheme such as redis://");
  for (char c : scheme) {
    if (!is_unreserved(c) && c != '+') return bad_url("has a scheme with invalid characters");
  }
  return scheme;
}

Status parse_authority(std::string_view text, Url& url) {
  if (std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    std::string_view login = text.substr(0, at);
    text.remove_prefix(at + 1);
    std::size_t colon = login.find(':');
    url.user = WARREN_TRY(decode_percent(login.substr(0, colon)));
    if (colon != std::string_view::npos) url.password = WARREN_TRY(decode_percent(login.substr(colon + 1)));
  }
  while (!text.empty()) {
    std::size_t comma = text.find(',');
    std::string_view host = text.substr(0, comma);
    WARREN_TRY(parse_host_port(host, 0));
    url.hosts.emplace_back(host);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return bad_url("has an empty host");
  }
  return Ok{};
}

Status parse_query(std::string_view text, Url& url) {
  while (!text.empty()) {
    std::size_t end = text.find('&');
    std::string_view pair = text.substr(0, end);
    std::size_t equals = pair.find('=');
    std::string name = WARREN_TRY(decode_percent(pair.substr(0, equals)));
    std::string value;
    if (equals != std::string_view::npos) value = WARREN_TRY(decode_percent(pair.substr(equals + 1)));
    if (!name.empty()) url.query.emplace_back(std::move(name), std::move(value));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return Ok{};
}

}  // namespace

const std::string* Url::find(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<Url> parse_url(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') return bad_url("contains a space or control character");
  }
  std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return bad_url("does not begin with a scheme such as redis://");
  Url url;
  url.scheme = WARREN_TRY(parse_scheme(text.substr(0, colon)));
  text.remove_prefix(colon + 3);
  text = text.substr(0, text.find('#'));
  std::size_t question = text.find('?');
  if (question != std::string_view::npos) WARREN_TRY(parse_query(text.substr(question + 1), url));
  text = text.substr(0, question);
  std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) url.path = text.substr(slash);
  WARREN_TRY(parse_authority(text.substr(0, slash), url));
  return url;
}

Result<HostPort> parse_host_port(std::string_view text, std::uint16_t default_port) {
  HostPort result{.host = {}, .port = default_port};
  std::string_view port;
  if (text.starts_with('[')) {
    std::size_t end = text.find(']');
    if (end == std::string_view::npos) return bad_url("has an IPv6 address without a closing bracket");
    result.host = text.substr(1, end - 1);
    std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return bad_url("has something other than a port after its address");
    if (!rest.empty()) port = rest.substr(1);
  } else {
    std::size_t colon = text.find(':');
    result.host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon + 1);
  }
  if (result.host.empty()) return bad_url("has an empty host");
  if (port.empty()) return result;
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size() || result.port == 0) {
    return bad_url(fmt::format("has port {}, which is not a number from 1 to 65535", quote(port)));
  }
  return result;
}

std::string without_secrets(const Url& url) {
  std::string text = url.scheme + "://";
  for (const std::string& host : url.hosts) {
    if (&host != &url.hosts.front()) text += ',';
    text += host;
  }
  return text + url.path;
}

Result<std::string> decode_percent(std::string_view text) {
  std::optional<std::string> decoded = decode_percent_bytes(text);
  if (!decoded) return bad_url("has a '%' without two hexadecimal digits after it (write a plain one as %25)");
  if (decoded->find('\0') != decoded->npos) return bad_url("contains a NUL");
  return *std::move(decoded);
}

}  // namespace warren
