#include "relay/spawn/spawn_config.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kNumberMax = std::int64_t{1} << 40;
constexpr std::array<std::string_view, 6> kPlaceholders = {"prompt", "name", "dir", "root", "inbox", "outbox"};

// A trailing `*` matches any suffix.
constexpr auto kUnsafe = std::to_array<std::string_view>({"LD_*",
                                                          "DYLD_*",
                                                          "GLIBC_TUNABLES",
                                                          "GCONV_PATH",
                                                          "LOCPATH",
                                                          "NLSPATH",
                                                          "MALLOC_*",
                                                          "HOSTALIASES",
                                                          "RES_OPTIONS",
                                                          "GETCONF_DIR",
                                                          "BASH_ENV",
                                                          "BASH_FUNC_*",
                                                          "BASHOPTS",
                                                          "SHELLOPTS",
                                                          "ENV",
                                                          "IFS",
                                                          "PS4",
                                                          "PROMPT_COMMAND",
                                                          "ZDOTDIR",
                                                          "PYTHON*",
                                                          "PERL*",
                                                          "RUBYLIB",
                                                          "RUBYOPT",
                                                          "NODE_OPTIONS",
                                                          "NODE_PATH",
                                                          "NODE_REPL_*",
                                                          "JAVA_TOOL_*",
                                                          "_JAVA_OPTIONS",
                                                          "JDK_JAVA_OPTIONS",
                                                          "CLASSPATH",
                                                          "LUA_*",
                                                          "TCLLIBPATH",
                                                          "PHPRC",
                                                          "PHP_INI_*",
                                                          "GIT_SSH*",
                                                          "GIT_EXEC_PATH",
                                                          "GIT_CONFIG*",
                                                          "GIT_EXTERNAL_*",
                                                          "GIT_ASKPASS",
                                                          "OPENSSL_CONF",
                                                          "OPENSSL_ENGINES",
                                                          "AGENT_RELAY_*",
                                                          "WARREN_*",
                                                          "PWD"});

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

Error wrong(std::string_view key, std::string_view what) {
  return {Code::kInvalid, fmt::format("config.json: {} {}", quote(key), what)};
}

Result<std::int64_t> number(std::string_view key, const Json& value, std::int64_t least) {
  if (value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= kNumberMax) {
    return value.get<std::int64_t>();
  }
  return wrong(key, fmt::format("must be a whole number of at least {}", least));
}

Result<std::chrono::milliseconds> duration(std::string_view key, const Json& value) {
  std::int64_t count = WARREN_TRY(number(key, value, 0));
  return std::chrono::milliseconds(count);
}

Result<bool> yes_or_no(std::string_view key, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return wrong(key, "must be true or false");
}

// Strings with a NUL byte are refused, since they cannot be passed to a program.
Result<std::vector<std::string>> strings(std::string_view key, const Json& value) {
  std::vector<std::string> out;
  if (!value.is_array()) return wrong(key, "must be a list of strings");
  for (const Json& one : value) {
    if (!one.is_string()) return wrong(key, "must be a list of strings");
    out.push_back(one.get<std::string>());
    if (out.back().find('\0') != std::string::npos) return wrong(key, "contains a NUL byte");
  }
  return out;
}

Status check_placeholders(std::string_view key, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string_view word = placeholder_at(text, at);
    if (!word.empty() && std::find(kPlaceholders.begin(), kPlaceholders.end(), word) == kPlaceholders.end()) {
      return wrong(key, fmt::format("has the unknown placeholder '{{{}}}'", word));
    }
  }
  return Ok{};
}

Result<CliTemplate> parse_cli(const std::string& key, const Json& json) {
  CliTemplate out;
  if (!json.is_object()) return wrong(key, "must be an object with 'argv'");
  for (const auto& [name, value] : json.items()) {
    if (name == "argv") {
      out.argv = WARREN_TRY(strings(name, value).within(quote(key)));
    } else if (name == "sandbox") {
      out.is_sandboxed = WARREN_TRY(yes_or_no(name, value));
    } else if (name == "user") {
      if (!value.is_string() || value.get<std::string>().empty())
        return wrong(name, "must be a user").within(quote(key));
      out.user = value.get<std::string>();
    } else if (name == "timeout_ms") {
      out.timeout = WARREN_TRY(duration(name, value));
    } else {
      return wrong(key, fmt::format("has the unknown key {}", quote(name)));
    }
  }
  if (out.argv.empty() || out.argv[0].empty()) return wrong(key, "needs an 'argv' that starts with a program");
  const std::string& program = out.argv[0];
  bool is_fixed = program.find('{') == program.npos && program[0] != '-';
  bool is_findable = program[0] == '/' || program.find('/') == program.npos;
  if (!is_fixed || !is_findable) return wrong(key, "must start 'argv' with the name or the absolute path of a program");
  for (const std::string& word : out.argv) WARREN_TRY(check_placeholders(key, word));
  return out;
}

Status check_roots(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    if (!root.starts_with('/')) return wrong("roots", fmt::format("has {}, which is not absolute", quote(root)));
  }
  return Ok{};
}

Status check_env(const std::vector<std::string>& env) {
  for (std::string_view name : env) {
    if (name == "*") continue;
    if (is_unsafe_variable(name)) return wrong("env", fmt::format("has {}, which is never passed on", quote(name)));
    if (name.ends_with('*')) name.remove_suffix(1);
    if (!is_variable_name(name))
      return wrong("env", fmt::format("has {}, which is not a valid variable name", quote(name)));
  }
  return Ok{};
}

Result<bool> set_limit(SpawnConfig& out, const std::string& key, const Json& value) {
  if (key == "count_max") {
    out.count_max = WARREN_TRY(number(key, value, 0));
  } else if (key == "depth_max") {
    out.depth_max = WARREN_TRY(number(key, value, 0));
  } else if (key == "per_minute") {
    out.per_minute = WARREN_TRY(number(key, value, 0));
  } else if (key == "notice_ms") {
    out.notice = WARREN_TRY(duration(key, value));
  } else if (key == "grace_ms") {
    out.grace = WARREN_TRY(duration(key, value));
  } else if (key == "orphan_ms") {
    out.orphan = WARREN_TRY(duration(key, value));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string_view placeholder_at(std::string_view text, std::size_t at) {
  if (text[at] != '{') return {};
  std::size_t end = at + 1;
  while (end < text.size() && ((text[end] >= 'a' && text[end] <= 'z') || text[end] == '_')) ++end;
  if (end == text.size() || text[end] != '}') return {};
  return text.substr(at + 1, end - at - 1);
}

bool is_unsafe_variable(std::string_view name) {
  return std::any_of(kUnsafe.begin(), kUnsafe.end(), [&](std::string_view one) { return matches(one, name); });
}

bool is_variable_name(std::string_view name) {
  auto is_first = [](char c) { return is_letter(c) || c == '_'; };
  auto is_byte = [&](char c) { return is_first(c) || is_digit(c); };
  return !name.empty() && name.size() <= 255 && is_first(name[0]) && std::all_of(name.begin(), name.end(), is_byte);
}

bool is_allowed_variable(const std::vector<std::string>& list, std::string_view name) {
  return !is_unsafe_variable(name) &&
         std::any_of(list.begin(), list.end(), [&](const std::string& one) { return matches(one, name); });
}

Result<SpawnConfig> parse_spawn_config(const Json& json) {
  SpawnConfig out;
  if (!json.is_object()) return wrong("spawn", "must be an object");
  for (const auto& [key, value] : json.items()) {
    if (key == "clis") {
      if (!value.is_object()) return wrong(key, "must be an object");
      for (const auto& [name, cli] : value.items()) out.clis[name] = WARREN_TRY(parse_cli(name, cli));
    } else if (key == "roots") {
      out.roots = WARREN_TRY(strings(key, value));
    } else if (key == "env") {
      out.env = WARREN_TRY(strings(key, value));
    } else if (key == "require_token") {
      out.requires_token = WARREN_TRY(yes_or_no(key, value));
    } else if (!WARREN_TRY(set_limit(out, key, value))) {
      return wrong("spawn", fmt::format("has the unknown key {}", quote(key)));
    }
  }
  WARREN_TRY(check_roots(out.roots));
  WARREN_TRY(check_env(out.env));
  return out;
}

Result<ContinuityConfig> parse_continuity_config(const Json& json) {
  ContinuityConfig out;
  if (!json.is_object()) return wrong("continuity", "must be an object");
  for (const auto& [key, value] : json.items()) {
    if (key == "bytes_max") {
      out.bytes_max = static_cast<std::uint64_t>(WARREN_TRY(number(key, value, 0)));
    } else if (key == "versions") {
      out.versions = WARREN_TRY(number(key, value, 1));
    } else {
      return wrong("continuity", fmt::format("has the unknown key {}", quote(key)));
    }
  }
  return out;
}

}  // namespace warren::relay
