#include "net/upstream.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/base64.h"
#include "base/path.h"
#include "base/percent.h"

namespace warren::net {
namespace {

constexpr std::uint16_t kProxyDefaultPort = 80;
constexpr std::size_t kAnswerBytes = std::size_t{16} << 10;
constexpr std::size_t kReasonBytes = 100;

Error not_a_proxy(const std::string& variable) {
  return {Code::kInvalid, fmt::format("{} is not the address of a proxy", variable),
          "write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with %40 for '@' and so on, or unset it"};
}

Result<UpstreamProxy> parse_upstream(const std::string& variable, std::string_view value) {
  std::string scheme = "http";
  if (std::size_t end = value.find("://"); end != value.npos) {
    scheme = to_lower(value.substr(0, end));
    value.remove_prefix(end + 3);
  }
  if (scheme != "http") {
    bool is_shown = scheme == "https" || scheme.starts_with("socks");
    return Error(
        Code::kUnsupported,
        fmt::format("{} names a proxy of a kind that --net HOST cannot use{}", variable,
                    is_shown ? fmt::format(": {}", scheme) : ""),
        fmt::format("set it to an http:// proxy, or unset it for this run: `env -u {} warren run …`", variable));
  }
  value = value.substr(0, value.find_first_of("/?#"));
  UpstreamProxy proxy;
  if (std::size_t at = value.rfind('@'); at != value.npos) {
    std::optional<std::string> user = decode_percent_bytes(value.substr(0, at));
    if (!user) return not_a_proxy(variable);
    if (user->find(':') == user->npos) *user += ':';
    proxy.authorization = "Basic " + encode_base64(as_bytes(*user));
    value.remove_prefix(at + 1);
  }
  Result<HostPort> at = parse_host_port(value, kProxyDefaultPort);
  if (!at.ok()) return not_a_proxy(variable);
  proxy.at = *std::move(at);
  return proxy;
}

// The first of the two that is set, with its name.
std::optional<std::pair<std::string, std::string>> find_set(const Upstreams::Variable& variable, std::string name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  for (const std::string& one : {std::move(name), std::move(upper)}) {
    std::string value = variable(one);
    if (!trimmed(value).empty()) return std::pair(one, std::string(trimmed(value)));
  }
  return std::nullopt;
}

Result<std::optional<UpstreamProxy>> find_proxy(const Upstreams::Variable& variable, const char* name) {
  auto given = find_set(variable, name);
  if (!given) given = find_set(variable, "all_proxy");
  if (!given) return std::optional<UpstreamProxy>();
  UpstreamProxy proxy = WARREN_TRY(parse_upstream(given->first, given->second));
  return std::optional(std::move(proxy));
}

}  // namespace

Result<Upstreams> Upstreams::from_environment(const Variable& variable) {
  Upstreams all;
  if (auto exceptions = find_set(variable, "no_proxy")) all.add_exceptions(exceptions->second);
  if (all.uses_none_) return all;
  all.tunnel_ = WARREN_TRY(find_proxy(variable, "https_proxy"));
  all.plain_ = WARREN_TRY(find_proxy(variable, "http_proxy"));
  return all;
}

void Upstreams::add_exceptions(std::string_view text) {
  constexpr std::string_view kSeparators = ", \t\n";
  while (!text.empty()) {
    std::size_t end = std::min(text.find_first_of(kSeparators), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!word.empty()) add_exception(word);
  }
}

// What is neither a name nor an address ("<local>") means nothing here, as in other programs.
void Upstreams::add_exception(std::string_view word) {
  if (word == "*") {
    uses_none_ = true;
    return;
  }
  if (word.starts_with("*.")) word.remove_prefix(1);
  if (word.starts_with('.')) word.remove_prefix(1);
  Exception made;
  std::optional<int> bits;
  if (std::size_t slash = word.find('/'); slash != word.npos) {
    bits = parse_number<int>(word.substr(slash + 1));
    if (!bits) return;
    word = word.substr(0, slash);
  }
  Result<HostPort> with_port = parse_host_port(word);
  Result<Host> host = with_port.ok() ? Result<Host>(with_port->host) : parse_host(word);
  if (!host.ok()) return;
  if (with_port.ok()) made.port = with_port->port;
  made.network = host->address;
  if (!made.network) {
    if (bits) return;
    made.name = host->name;
  } else {
    int all = made.network->is_v6() ? 128 : 32;
    made.bits = bits.value_or(all);
    if (made.bits < 0 || made.bits > all) return;
  }
  exceptions_.push_back(std::move(made));
}

bool Upstreams::Exception::covers(const HostPort& target) const {
  if (port && *port != target.port) return false;
  if (network) return target.host.address && target.host.address->is_in(*network, bits);
  const std::string& host = target.host.name;
  if (target.host.address) return false;
  bool is_below = host.size() > name.size() && host.ends_with(name) && host[host.size() - name.size() - 1] == '.';
  return host == name || is_below;
}

const UpstreamProxy* Upstreams::find(const HostPort& target, Use use) const {
  const std::optional<UpstreamProxy>& proxy = use == Use::kTunnel ? tunnel_ : plain_;
  if (!proxy) return nullptr;
  bool is_local = target.host.name == "localhost" || (target.host.address && target.host.address->is_loopback());
  bool is_exempt =
      std::any_of(exceptions_.begin(), exceptions_.end(), [&](const Exception& one) { return one.covers(target); });
  return is_local || is_exempt ? nullptr : &*proxy;
}

std::vector<std::string> Upstreams::names() const {
  std::vector<std::string> all;
  for (const std::optional<UpstreamProxy>& proxy : {tunnel_, plain_}) {
    if (!proxy) continue;
    std::string name = proxy->at.text();
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
  }
  return all;
}

std::string connect_request(const HostPort& target, const std::string& authorization) {
  std::string credentials = authorization.empty() ? "" : fmt::format("Proxy-Authorization: {}\r\n", authorization);
  return fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n{1}\r\n", target.text(), credentials);
}

Result<std::optional<std::size_t>> parse_connect_answer(std::string_view bytes) {
  constexpr std::string_view kVersion = "HTTP/1.";
  Error strange(Code::kInvalid, "its answer is not one of an HTTP proxy");
  std::size_t known = std::min(bytes.size(), kVersion.size());
  if (bytes.substr(0, known) != kVersion.substr(0, known)) return strange;
  std::size_t end = bytes.find("\r\n\r\n");
  if (end == bytes.npos) {
    if (bytes.size() > kAnswerBytes) return strange;
    return std::optional<std::size_t>();
  }
  std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  std::size_t space = line.find(' ');
  std::string_view answer = space == line.npos ? std::string_view() : trimmed(line.substr(space + 1));
  std::optional<int> status = parse_number<int>(answer.substr(0, 3));
  if (!status || answer.size() < 3 || (answer.size() > 3 && answer[3] != ' ')) return strange;
  if (*status >= 200 && *status < 300) return std::optional(end + 4);
  if (*status == 407) {
    return Error(Code::kUnavailable,
                 "it asks for a user and a password, or refuses those that it got; HTTPS_PROXY may have them: "
                 "http://USER:PASSWORD@HOST:PORT");
  }
  return Error(Code::kUnavailable, fmt::format("it answers {}", quote(answer.substr(0, kReasonBytes))));
}

}  // namespace warren::net
