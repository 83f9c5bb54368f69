#include "relay/protocol/spawn_request.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "relay/protocol/names.h"
#include "relay/spawn/spawn_config.h"

namespace warren::relay {
namespace {

constexpr std::array<std::string_view, 5> kSpawnKeys = {"NAME", "CLI", "PROMPT", "WORKING_DIR", "ENV"};

Error invalid_request(std::string message) { return {Code::kInvalid, std::move(message)}; }

std::string_view take_line(std::string_view& text) {
  std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

// Lines may end with CR LF.
std::string_view trimmed_field(std::string_view text) {
  return trimmed(text.substr(0, text.find_last_not_of(" \t\r") + 1));
}

struct Field {
  std::string_view key;
  std::string_view value;
};

Result<Field> split_field(std::string_view line) {
  std::size_t colon = line.find(':');
  if (colon == line.npos)
    return invalid_request(fmt::format("expected 'KEY: value', not {}", quote(line.substr(0, 80))));
  return Field{trimmed_field(line.substr(0, colon)), trimmed_field(line.substr(colon + 1))};
}

Status set_once(std::string& field, const Field& given) {
  if (!field.empty()) return invalid_request(fmt::format("duplicate line {}", quote(given.key)));
  if (given.value.find('\0') != given.value.npos)
    return invalid_request(fmt::format("{} contains a NUL byte", quote(given.key)));
  field = given.value;
  return Ok{};
}

bool begins_with_key(std::string_view line) {
  return std::any_of(kSpawnKeys.begin(), kSpawnKeys.end(), [&](std::string_view key) {
    return line.starts_with(key) && line.substr(key.size()).starts_with(':');
  });
}

// Reads the rest of a prompt, after its first line.
Result<std::string> take_prompt(std::string_view first, std::string_view& rest) {
  std::string prompt(first);
  if (first.empty()) {
    prompt = std::exchange(rest, {});
  } else {
    while (!rest.empty() && !begins_with_key(rest)) {
      prompt += '\n';
      prompt += take_line(rest);
    }
  }
  while (prompt.ends_with('\n') || prompt.ends_with('\r')) prompt.pop_back();
  if (prompt.find('\0') != prompt.npos) return invalid_request("PROMPT contains a NUL byte");
  return prompt;
}

Status add_env(SpawnRequest& request, std::string_view list) {
  while (!list.empty()) {
    std::size_t end = std::min(list.find(','), list.size());
    std::string_view pair = trimmed_field(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    std::size_t equals = pair.find('=');
    if (equals == pair.npos)
      return invalid_request(fmt::format("ENV must be KEY=value,KEY=value, not {}", quote(pair.substr(0, 80))));
    std::string name(pair.substr(0, equals));
    if (!is_variable_name(name))
      return invalid_request(fmt::format("ENV: {} is not a valid variable name", quote(name)));
    std::string_view value = pair.substr(equals + 1);
    if (value.find('\0') != value.npos) return invalid_request(fmt::format("ENV: {} contains a NUL byte", quote(name)));
    bool is_known =
        std::any_of(request.env.begin(), request.env.end(), [&](const auto& one) { return one.first == name; });
    if (is_known) return invalid_request(fmt::format("ENV sets {} twice", quote(name)));
    request.env.emplace_back(std::move(name), value);
  }
  return Ok{};
}

Status take_spawn_field(SpawnRequest& request, const Field& field, std::string_view& rest) {
  if (is_same_header(field.key, "NAME")) return set_once(request.name, field);
  if (is_same_header(field.key, "CLI")) return set_once(request.cli, field);
  if (is_same_header(field.key, "WORKING_DIR")) return set_once(request.working_dir, field);
  if (is_same_header(field.key, "ENV")) return add_env(request, field.value);
  if (!is_same_header(field.key, "PROMPT"))
    return invalid_request(fmt::format("unknown line {}", quote(field.key.substr(0, 80))));
  if (!request.prompt.empty()) return invalid_request("duplicate line 'PROMPT'");
  request.prompt = WARREN_TRY(take_prompt(field.value, rest));
  return Ok{};
}

Result<std::int64_t> parse_version(std::string_view text) {
  std::optional<std::int64_t> value = parse_number<std::int64_t>(text);
  if (!value || *value < 1) {
    return invalid_request(fmt::format("VERSION must be a number of at least 1, not {}", quote(text.substr(0, 80))));
  }
  return *value;
}

Status take_continuity_field(ContinuityRequest& request, bool& has_action, std::string_view key,
                             std::string_view value) {
  if (is_same_header(key, "VERSION")) {
    request.version = WARREN_TRY(parse_version(value));
    return Ok{};
  }
  if (!is_same_header(key, "ACTION")) return invalid_request(fmt::format("unknown line {}", quote(key.substr(0, 80))));
  if (!is_same_header(value, "save") && !is_same_header(value, "load")) {
    return invalid_request(fmt::format("ACTION must be save or load, not {}", quote(value.substr(0, 80))));
  }
  request.action = is_same_header(value, "save") ? ContinuityAction::kSave : ContinuityAction::kLoad;
  has_action = true;
  return Ok{};
}

}  // namespace

Result<SpawnRequest> parse_spawn_request(std::string_view body) {
  SpawnRequest request;
  while (!body.empty()) {
    std::string_view line = take_line(body);
    if (trimmed_field(line).empty()) continue;
    Field field = WARREN_TRY(split_field(line));
    WARREN_TRY(take_spawn_field(request, field, body));
  }
  if (request.name.empty()) return invalid_request("there is no line 'NAME'");
  if (request.cli.empty()) return invalid_request("there is no line 'CLI'");
  WARREN_TRY(check_agent_name(request.name));
  return request;
}

std::string write_spawn_request(const SpawnRequest& request) {
  std::string out = fmt::format("NAME: {}\nCLI: {}\n", request.name, request.cli);
  if (!request.working_dir.empty()) out += fmt::format("WORKING_DIR: {}\n", request.working_dir);
  for (const auto& [name, value] : request.env) out += fmt::format("ENV: {}={}\n", name, value);
  if (!request.prompt.empty()) out += fmt::format("PROMPT:\n{}\n", request.prompt);
  return out;
}

Result<ReleaseRequest> parse_release_request(std::string_view body) {
  ReleaseRequest request;
  while (!body.empty()) {
    std::string_view line = take_line(body);
    if (trimmed_field(line).empty()) continue;
    Field field = WARREN_TRY(split_field(line));
    if (is_same_header(field.key, "NAME")) {
      WARREN_TRY(set_once(request.name, field));
    } else if (is_same_header(field.key, "REASON")) {
      WARREN_TRY(set_once(request.reason, field));
    } else {
      return invalid_request(fmt::format("unknown line {}", quote(field.key.substr(0, 80))));
    }
  }
  if (request.name.empty()) return invalid_request("there is no line 'NAME'");
  WARREN_TRY(check_agent_name(request.name));
  return request;
}

Result<ContinuityRequest> parse_continuity_request(const Message& message) {
  ContinuityRequest request;
  bool has_action = false;
  std::string_view rest = message.body;
  if (const std::string* action = message.find("ACTION")) {
    WARREN_TRY(take_continuity_field(request, has_action, "ACTION", *action));
    if (const std::string* version = message.find("VERSION")) request.version = WARREN_TRY(parse_version(*version));
  } else {
    while (!rest.empty()) {
      std::string_view line = take_line(rest);
      if (trimmed_field(line).empty()) break;
      Field field = WARREN_TRY(split_field(line));
      WARREN_TRY(take_continuity_field(request, has_action, field.key, field.value));
    }
  }
  if (!has_action) return invalid_request("'ACTION' is missing: it must be save or load");
  if (request.action == ContinuityAction::kSave) request.state = rest;
  return request;
}

}  // namespace warren::relay
