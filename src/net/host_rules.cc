#include "net/host_rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren::net {
namespace {

constexpr std::size_t kHostBytes = 253;
constexpr std::size_t kLabelBytes = 63;
constexpr std::size_t kRulesMax = 1000;

struct Set {
  std::string_view name;
  std::vector<std::string_view> hosts;
};

// What programs need to do their usual work, and no more. docs/manual.md lists them.
const std::vector<Set>& sets() {
  static const std::vector<Set> kSets{{"agents",
                                       {"api.anthropic.com",
                                        "claude.ai",
                                        "console.anthropic.com",
                                        "platform.claude.com",
                                        "api.openai.com",
                                        "auth.openai.com",
                                        "chatgpt.com",
                                        "generativelanguage.googleapis.com",
                                        "cloudcode-pa.googleapis.com",
                                        "oauth2.googleapis.com",
                                        "ampcode.com",
                                        "openrouter.ai",
                                        "api.deepseek.com",
                                        "api.mistral.ai",
                                        "api.x.ai",
                                        "api.groq.com",
                                        "api.githubcopilot.com",
                                        "*.githubcopilot.com",
                                        "dashscope.aliyuncs.com",
                                        "api2.cursor.sh"}},
                                      {"npm", {"registry.npmjs.org", "registry.yarnpkg.com"}},
                                      {"pypi", {"pypi.org", "files.pythonhosted.org"}},
                                      {"crates", {"crates.io", "index.crates.io", "static.crates.io"}},
                                      {"github",
                                       {"github.com", "api.github.com", "codeload.github.com", "uploads.github.com",
                                        "*.githubusercontent.com", "github-cloud.s3.amazonaws.com"}},
                                      {"debian", {"deb.debian.org", "security.debian.org", "ftp.debian.org"}}};
  return kSets;
}

Error not_a_host(std::string_view text, std::string hint = "") {
  return {Code::kInvalid, fmt::format("{} is not a valid host", quote(text.substr(0, kHostBytes + 1))),
          std::move(hint)};
}

bool is_label(std::string_view label) {
  bool is_sized = !label.empty() && label.size() <= kLabelBytes && label.front() != '-' && label.back() != '-';
  return is_sized && std::all_of(label.begin(), label.end(),
                                 [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_'; });
}

// Libraries read such a last label, and so the whole host, as a number.
bool is_numeric(std::string_view label) {
  if (std::all_of(label.begin(), label.end(), is_digit)) return true;
  return label.starts_with("0x") && std::all_of(label.begin() + 2, label.end(), is_hex_digit);
}

Status check_labels(std::string_view name, std::string_view typed) {
  std::string_view rest = name;
  for (;;) {
    std::size_t dot = std::min(rest.find('.'), rest.size());
    std::string_view label = rest.substr(0, dot);
    if (!is_label(label)) {
      bool is_ascii = std::all_of(typed.begin(), typed.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
      return not_a_host(typed, is_ascii ? "" : "write an international name in its xn-- form");
    }
    if (dot == rest.size()) {
      if (is_numeric(label)) return not_a_host(typed, "write an IPv4 address as four decimal numbers");
      return Ok{};
    }
    rest.remove_prefix(dot + 1);
  }
}

struct Split {
  std::string_view host;
  std::optional<std::string_view> port;
};

// Leaves an unbracketed IPv6 address whole.
Split split_port(std::string_view text) {
  std::size_t colon = text.rfind(':');
  bool is_bracketed = text.starts_with('[');
  bool has_port = colon != text.npos && (is_bracketed ? colon > text.find(']') : text.find(':') == colon);
  if (!has_port) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  std::optional<std::uint16_t> port = parse_number<std::uint16_t>(text);
  if (port && *port != 0) return *port;
  return Error(Code::kInvalid, fmt::format("{} is not a valid port", quote(text.substr(0, 32))));
}

// Shown with the rule that was probably meant.
Error is_url(std::string_view word) {
  std::size_t scheme = word.find("://");
  std::string_view rest = word.substr(scheme + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (std::size_t user = rest.rfind('@'); user != rest.npos) rest.remove_prefix(user + 1);
  bool has_secure_port = to_lower(word.substr(0, scheme)) != "http";
  Result<HostPort> target = parse_host_port(rest, has_secure_port ? 443 : 80);
  std::string hint = "write HOST or HOST:PORT";
  if (target.ok()) {
    bool needs_port = split_port(rest).port || target->host.name.find_first_of(".:") == std::string::npos;
    hint = fmt::format("write {}", quote(needs_port ? target->text() : target->host.text()));
  }
  return {Code::kInvalid, fmt::format("{} is a URL, not a host", quote(word.substr(0, kHostBytes))), std::move(hint)};
}

Error is_everything(std::string_view word) {
  return {Code::kInvalid, fmt::format("{} would allow every host", quote(word)),
          "`--net all` gives the command the host's network; otherwise name hosts or smaller networks"};
}

}  // namespace

std::string Host::text() const { return address && address->is_v6() ? fmt::format("[{}]", name) : name; }

std::string HostPort::text() const { return fmt::format("{}:{}", host.text(), port); }

Result<Host> parse_host(std::string_view text) {
  bool is_bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  std::string_view inner = is_bracketed ? text.substr(1, text.size() - 2) : text;
  std::optional<Address> address = Address::parse(inner);
  if (address) {
    if (is_bracketed && inner.find(':') == inner.npos) return not_a_host(text);
    return Host{address->text(), address};
  }
  if (is_bracketed) return not_a_host(text);
  std::string name = to_lower(text.ends_with('.') ? text.substr(0, text.size() - 1) : text);
  if (name.empty() || name.size() > kHostBytes) return not_a_host(text);
  WARREN_TRY(check_labels(name, text));
  return Host{std::move(name), std::nullopt};
}

Result<HostPort> parse_host_port(std::string_view text, std::optional<std::uint16_t> default_port) {
  Split split = split_port(text);
  HostPort target;
  target.host = WARREN_TRY(parse_host(split.host));
  if (!split.port && !default_port) {
    return Error(Code::kInvalid, fmt::format("{} has no port", quote(text.substr(0, kHostBytes + 1))));
  }
  target.port = split.port ? WARREN_TRY(parse_port(*split.port)) : *default_port;
  return target;
}

std::string known_sets() {
  std::string text;
  for (const Set& set : sets()) (text += text.empty() ? "" : ", ") += set.name;
  return text;
}

bool HostRules::Rule::covers(std::uint16_t wanted) const {
  if (ports == Ports::kAll) return true;
  return ports == Ports::kOne ? wanted == port : wanted == 80 || wanted == 443;
}

bool HostRules::Rule::covers(const Host& host) const {
  if (network) return host.address && host.address->is_in(*network, bits);
  if (host.address) return false;
  if (!is_for_names_below) return host.name == name;
  return host.name.size() > name.size() + 1 && host.name.ends_with(name) &&
         host.name[host.name.size() - name.size() - 1] == '.';
}

Result<HostRules::Rule> HostRules::parse_rule(std::string_view word) {
  if (word.find("://") != word.npos) return is_url(word);
  Rule rule;
  Split split = split_port(word);
  if (split.host == "*") return is_everything(word);
  if (split.port) {
    rule.ports = *split.port == "*" ? Ports::kAll : Ports::kOne;
    if (rule.ports == Ports::kOne) rule.port = WARREN_TRY(parse_port(*split.port));
  }
  std::string_view text = split.host;
  std::optional<std::string_view> bits;
  if (std::size_t slash = text.find('/'); slash != text.npos) {
    bits = text.substr(slash + 1);
    text = text.substr(0, slash);
  }
  rule.is_for_names_below = text.starts_with("*.");
  if (rule.is_for_names_below) text.remove_prefix(2);
  Host host = WARREN_TRY(parse_host(text));
  rule.network = host.address;
  if (rule.network) {
    rule.bits = rule.network->is_v6() ? 128 : 32;
    if (bits) {
      std::optional<int> count = parse_number<int>(*bits);
      if (count == 0) return is_everything(word);
      if (!count || *count < 1 || *count > rule.bits) return not_a_host(word, "a network is ADDRESS/BITS");
      rule.bits = *count;
    }
  } else {
    rule.name = host.name;
  }
  bool is_too_wide = rule.is_for_names_below && (rule.network || rule.name.find('.') == rule.name.npos);
  bool is_odd = bits && !rule.network;
  if (is_too_wide || is_odd) {
    return not_a_host(word,
                      is_odd ? "name a host, without a path" : "'*.' needs a name of at least two parts after it");
  }
  return rule;
}

Status HostRules::add(std::string_view word) {
  auto is_set = [&](const Set& set) { return set.name == word; };
  auto set = std::find_if(sets().begin(), sets().end(), is_set);
  if (set != sets().end()) {
    for (std::string_view host : set->hosts) WARREN_TRY(add(host));
    return Ok{};
  }
  if (rules_.size() >= kRulesMax) return Error(Code::kLimit, fmt::format("more than {} hosts", kRulesMax));
  Rule rule = WARREN_TRY(parse_rule(word));
  bool is_word = !rule.network && !rule.is_for_names_below && rule.ports == Ports::kWeb &&
                 rule.name.find('.') == rule.name.npos && rule.name != "localhost";
  if (is_word) {
    return Error(
        Code::kInvalid, fmt::format("{} is neither a host nor a known set of hosts", quote(word)),
        fmt::format("the sets are {}; for a host without a domain, give a port too: {}:443", known_sets(), word));
  }
  rules_.push_back(std::move(rule));
  return Ok{};
}

Result<HostRules> HostRules::parse(std::span<const std::string> words) {
  HostRules rules;
  for (std::string_view text : words) {
    while (!text.empty()) {
      std::size_t comma = std::min(text.find(','), text.size());
      std::string_view word = trimmed(text.substr(0, comma));
      text.remove_prefix(std::min(comma + 1, text.size()));
      if (!word.empty()) WARREN_TRY(rules.add(word));
    }
  }
  if (rules.rules_.empty()) return Error(Code::kInvalid, "no host is named");
  return rules;
}

HostRules::Verdict HostRules::judge(const HostPort& target) const {
  Verdict verdict;
  for (const Rule& rule : rules_) {
    if (!rule.covers(target.port) || !rule.covers(target.host)) continue;
    verdict.is_allowed = true;
    verdict.is_port_named = verdict.is_port_named || rule.ports != Ports::kWeb;
  }
  return verdict;
}

bool HostRules::may_lead_to(const HostPort& target, const Address& address) const {
  if (address.is_public() && !is_own_address(address)) return true;
  if (target.host.name == "localhost" && address.is_loopback()) return true;
  Host there{address.text(), address};
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const Rule& rule) { return rule.network && rule.covers(target.port) && rule.covers(there); });
}

}  // namespace warren::net
