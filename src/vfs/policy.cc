#include "vfs/policy.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "base/path.h"
#include "base/strict_json.h"
#include "base/utf8.h"
#include "vfs/grants.h"

namespace warren {
namespace {

Error wrong(std::string message) { return Error(Code::kInvalid, std::move(message)); }

Status check_members(const Json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return wrong(fmt::format("unknown member {}; known are {}", quote(name), fmt::join(known, ", ")));
    }
  }
  return Ok{};
}

Result<std::string> text_of(const Json& object, const char* member, std::string_view missing) {
  auto found = object.find(member);
  if (found == object.end()) return std::string(missing);
  if (!found->is_string()) return wrong(fmt::format("{} must be a string", quote(member)));
  return found->get<std::string>();
}

Result<Effect> effect_of(std::string_view name) {
  if (name == "allow") return Effect::kAllow;
  if (name == "deny") return Effect::kDeny;
  return wrong(fmt::format("{} is neither 'allow' nor 'deny'", quote(name)));
}

Result<Rights> operations_of(const Json& rule) {
  auto found = rule.find("operation");
  if (found == rule.end()) return kAllRights;
  if (found->is_string()) return parse_operation(found->get<std::string>());
  if (!found->is_array() || found->empty()) return wrong("'operation' must be a string or a list of strings");
  Rights all;
  for (const Json& one : *found) {
    if (!one.is_string()) return wrong("'operation' must be a string or a list of strings");
    all = all | WARREN_TRY(parse_operation(one.get<std::string>()));
  }
  return all;
}

Status read_space(const Json& json, Rule& rule) {
  std::string name = WARREN_TRY(text_of(json, "space", "any"));
  rule.is_for_peers = name == "peer";
  if (name == "user" || name == "peer") rule.space = Space::kUser;
  else if (name == "kernel") rule.space = Space::kKernel;
  else if (name != "any") return wrong(fmt::format("'space' {} is not one of user, peer, kernel, any", quote(name)));
  return Ok{};
}

Result<Rule> parse_rule(const Json& json) {
  if (!json.is_object()) return wrong("it must be an object");
  WARREN_TRY(check_members(json, {"agent", "space", "operation", "path", "effect", "reason"}));
  if (!json.contains("path")) return wrong("'path' is missing");
  if (!json.contains("effect")) return wrong("'effect' is missing");
  Rule rule;
  rule.agent_text = WARREN_TRY(text_of(json, "agent", "*"));
  rule.agent = Glob(rule.agent_text == "*" ? "**" : rule.agent_text);
  WARREN_TRY(read_space(json, rule));
  rule.operations = WARREN_TRY(operations_of(json));
  rule.path_text = WARREN_TRY(text_of(json, "path", ""));
  if (!rule.path_text.starts_with('/')) {
    return wrong(fmt::format("'path' {} does not begin with '/'", quote(rule.path_text)));
  }
  auto names = WARREN_TRY(split_path(rule.path_text));
  if (std::find(names.begin(), names.end(), "..") != names.end()) return wrong("'path' cannot contain '..'");
  rule.path = Glob(rule.path_text);
  std::string effect = WARREN_TRY(text_of(json, "effect", ""));
  rule.effect = WARREN_TRY(effect_of(effect));
  rule.reason = WARREN_TRY(text_of(json, "reason", ""));
  return rule;
}

Result<std::optional<std::uint64_t>> limit_of(const Json& limits, const char* member) {
  auto found = limits.find(member);
  if (found == limits.end()) return std::optional<std::uint64_t>();
  if (!found->is_number_unsigned()) return wrong(fmt::format("{} must be a whole number", quote(member)));
  return std::optional(found->get<std::uint64_t>());
}

// Finds the lines on which the elements of the top-level member "rules" begin, in text that is known to be JSON.
std::vector<std::size_t> lines_of_rules(std::string_view text) {
  std::vector<std::size_t> lines;
  std::size_t line = 1;
  int depth = 0;
  bool in_rules = false;
  std::string last;  // the last string at depth 1
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '\n') ++line;
    if (c == '"') {
      std::size_t begin = at + 1;
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\') ++at;
      }
      if (depth == 1) last = text.substr(begin, at - begin);
    } else if (c == '{' || c == '[') {
      ++depth;
      if (depth == 2) in_rules = c == '[' && last == "rules";
      if (depth == 3 && in_rules) lines.push_back(line);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return lines;
}

// Whether the first rule matches every caller and path that the second one does.
bool covers(const Rule& first, const Rule& second) {
  if (first.agent_text != "*" && first.agent_text != second.agent_text) return false;
  if (first.space && first.space != second.space) return false;
  if (first.is_for_peers && !second.is_for_peers) return false;
  std::string_view outer = first.path_text;
  std::string_view inner = second.path_text;
  if (outer == inner || outer == "/" || outer == "/**") return true;
  bool is_plain = outer.find_first_of("*?[\\") == outer.npos;
  return is_plain && inner.starts_with(outer) && inner[outer.size()] == '/';
}

bool is_meant(const Rule& rule, const Caller& caller) {
  if (rule.is_for_peers && caller.grants == nullptr) return false;
  return (!rule.space || *rule.space == caller.space) && rule.agent.matches(caller.agent);
}

// What the caller may do before any rule.
Rights ceiling_of(const Caller& caller, Region region, std::string_view path) {
  if (!is_in_root(caller, path)) return {};
  if (caller.grants == nullptr) return rights_in(region, caller.space);
  return peer_rights_in(region) & caller.grants->at(path);
}

}  // namespace

std::string_view name_of(Space space) { return space == Space::kUser ? "user" : "kernel"; }

bool is_in_root(const Caller& caller, std::string_view path) {
  const std::string& root = caller.root;
  if (root.empty() || root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

Result<Policy> Policy::parse(std::string_view text) {
  if (text.size() > kBytesMax) return Error(Code::kTooLarge, fmt::format("a policy has at most {} bytes", kBytesMax));
  Json json = WARREN_TRY(parse_strict_json(text));
  if (!json.is_object()) return wrong("a policy is a JSON object");
  WARREN_TRY(check_members(json, {"version", "default", "rules", "limits", "comment"}));
  auto version = json.find("version");
  if (version == json.end() || *version != 1) return wrong("'version' must be 1");
  Policy policy;
  std::string fallback = WARREN_TRY(text_of(json, "default", "allow"));
  policy.fallback_ = WARREN_TRY(effect_of(fallback).within("'default'"));
  if (auto rules = json.find("rules"); rules != json.end()) {
    if (!rules->is_array()) return wrong("'rules' must be a list");
    if (rules->size() > kRulesMax) return Error(Code::kLimit, fmt::format("a policy has at most {} rules", kRulesMax));
    std::vector<std::size_t> lines = lines_of_rules(text);
    for (std::size_t i = 0; i < rules->size(); ++i) {
      std::size_t line = i < lines.size() ? lines[i] : 0;
      Rule rule =
          WARREN_TRY(parse_rule((*rules)[i]).within([&] { return fmt::format("rule {}, line {}", i + 1, line); }));
      rule.line = line;
      policy.rules_.push_back(std::move(rule));
    }
  }
  if (auto limits = json.find("limits"); limits != json.end()) {
    if (!limits->is_object()) return wrong("'limits' must be an object");
    WARREN_TRY(check_members(*limits, {"file_bytes", "changes_per_second"}).within("limits"));
    policy.limits_.file_bytes = WARREN_TRY(limit_of(*limits, "file_bytes"));
    policy.limits_.changes_per_second = WARREN_TRY(limit_of(*limits, "changes_per_second"));
  }
  return policy;
}

Rights Policy::rights(const Caller& caller, std::string_view path) const {
  Rights allowed = ceiling_of(caller, region_of(path), path);
  Rights undecided = kAllRights;
  for (const Rule& rule : rules_) {
    Rights decided = rule.operations & undecided;
    if (decided.is_empty() || !is_meant(rule, caller) || !rule.path.matches(path)) continue;
    if (rule.effect == Effect::kDeny) allowed = allowed.without(decided);
    undecided = undecided.without(decided);
  }
  return fallback_ == Effect::kDeny ? allowed.without(undecided) : allowed;
}

Verdict Policy::judge(const Caller& caller, Rights::Operation operation, std::string_view path) const {
  Region region = region_of(path);
  if (!ceiling_of(caller, region, path).has(operation)) return {.effect = Effect::kDeny, .region = region, .rule = {}};
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if (!rule.operations.has(operation) || !is_meant(rule, caller) || !rule.path.matches(path)) continue;
    return {.effect = rule.effect, .region = {}, .rule = i};
  }
  return {.effect = fallback_, .region = {}, .rule = {}};
}

std::vector<std::size_t> Policy::idle_rules() const {
  std::vector<std::size_t> idle;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    Rights left = rules_[i].operations;
    for (std::size_t before = 0; before < i; ++before) {
      if (covers(rules_[before], rules_[i])) left = left.without(rules_[before].operations);
    }
    if (left.is_empty()) idle.push_back(i);
  }
  return idle;
}

std::string Policy::below(std::string_view dir) const {
  std::string mark = fmt::format("{};", static_cast<int>(region_of(dir)));
  for (std::string_view inner : {"/mem/episodic", "/policy", "/audit", "/ipc", "/ipc/inbox", "/ipc/outbox"}) {
    if (dir == "/" || (inner.starts_with(dir) && inner.size() > dir.size() && inner[dir.size()] == '/')) {
      mark += fmt::format("{};", inner.substr(dir.size()));
    }
  }
  for (const Rule& rule : rules_) mark += rule.path.below(dir) + ";";
  return mark;
}

}  // namespace warren
