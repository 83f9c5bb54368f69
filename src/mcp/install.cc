#include "mcp/install.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/json.h"
#include "base/path.h"
#include "base/utf8.h"
#include "toml/toml.h"

namespace warren::mcp {
namespace {

constexpr std::array<ClientConfig, 5> kClients{{
    {"claude", "Claude Code", ConfigPlace::kProject, ".mcp.json", ConfigFormat::kJson, "mcpServers", true},
    {"cursor", "Cursor", ConfigPlace::kProject, ".cursor/mcp.json", ConfigFormat::kJson, "mcpServers", false},
    {"vscode", "Visual Studio Code", ConfigPlace::kProject, ".vscode/mcp.json", ConfigFormat::kJson, "servers", true},
    {"codex", "Codex", ConfigPlace::kHome, ".codex/config.toml", ConfigFormat::kToml, "mcp_servers", false},
    {"gemini", "Gemini CLI", ConfigPlace::kProject, ".gemini/settings.json", ConfigFormat::kJson, "mcpServers", false},
}};

Json entry_json(const ClientConfig& client, const ServerEntry& entry) {
  Json made = Json::object();
  if (client.has_type) made["type"] = "stdio";
  made["command"] = entry.command;
  made["args"] = entry.arguments;
  return made;
}

Result<Json> parse_config(const ClientConfig& client, std::string_view text) {
  if (trimmed(text, kWhitespace).empty()) return Json::object();
  Result<Json> value = parse_json(text);
  if (!value.ok()) {
    return Error(Code::kInvalid,
                 fmt::format("the configuration of {} is not plain JSON: {}", client.title, value.error().message()),
                 "with comments or trailing commas in it, add the entry by hand: without --write it is printed");
  }
  if (!value->is_object()) return Error(Code::kInvalid, "the configuration is not a JSON object");
  auto servers = value->find(std::string(client.servers));
  if (servers != value->end() && !servers->is_object()) {
    return Error(Code::kInvalid, fmt::format("{} in the configuration is not an object", quote(client.servers)));
  }
  return value;
}

// A string of TOML is one of JSON, except that it has no \/ and needs no more escapes than JSON writes.
std::string toml_text(const std::string& text) { return dump_json(Json(text)); }

std::string toml_begin(std::string_view name) { return fmt::format("# Written by warren: {}\n", name); }
std::string toml_end(std::string_view name) { return fmt::format("# End of warren: {}\n", name); }

std::string toml_table(const ClientConfig& client, std::string_view name) {
  return fmt::format("[{}.{}]", client.servers, toml_text(std::string(name)));
}

std::string toml_block(const ClientConfig& client, const ServerEntry& entry) {
  std::string arguments;
  for (const std::string& one : entry.arguments) arguments += (arguments.empty() ? "" : ", ") + toml_text(one);
  return fmt::format("{}{}\ncommand = {}\nargs = [{}]\n{}", toml_begin(entry.name), toml_table(client, entry.name),
                     toml_text(entry.command), arguments, toml_end(entry.name));
}

constexpr std::size_t kServerNameBytes = 255;

Result<Json> parse_toml_config(const ClientConfig& client, std::string_view text) {
  Result<Json> value = parse_toml(text);
  if (value.ok()) return value;
  return Error(Code::kInvalid,
               fmt::format("the configuration of {} is not valid TOML: {}", client.title, value.error().message()),
               "repair it, or add the entry by hand: without --write it is printed");
}

// Whatever the order of members is.
bool is_same_value(const Json& a, const Json& b) {
  if (a.is_object() != b.is_object() || a.is_array() != b.is_array()) return false;
  if (!a.is_structured()) return a == b;
  if (a.size() != b.size()) return false;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), is_same_value);
  for (const auto& [name, value] : a.items()) {
    auto other = b.find(name);
    if (other == b.end() || !is_same_value(value, *other)) return false;
  }
  return true;
}

// The text of a changed configuration, if all that it says is `expected`.
Result<std::string> checked_toml(const ClientConfig& client, std::string text, const Json& expected) {
  Result<Json> value = parse_toml(text);
  if (value.ok() && is_same_value(*value, expected)) return text;
  return Error(Code::kInvalid,
               fmt::format("the configuration of {} cannot be changed without changing more of it", client.title),
               "change it by hand: without --write the entry is printed");
}

// Where our block is; nullopt: nowhere.
struct Block {
  std::size_t begin = 0;
  std::size_t end = 0;
};
std::optional<Block> find_block(std::string_view text, std::string_view name) {
  std::size_t begin = text.find(toml_begin(name));
  if (begin == text.npos) return std::nullopt;
  std::string last = toml_end(name);
  std::size_t end = text.find(last, begin);
  if (end == text.npos) return std::nullopt;
  return Block{begin, end + last.size()};
}

Result<std::string> with_toml(const ClientConfig& client, std::string_view text, const ServerEntry& entry) {
  std::string made(text);
  Json expected = WARREN_TRY(parse_toml_config(client, text));
  std::string servers(client.servers);
  if (expected.contains(servers) && !expected[servers].is_object()) {
    return Error(Code::kInvalid, fmt::format("{} in the configuration is not a table", quote(servers)));
  }
  std::optional<Block> block = find_block(made, entry.name);
  if (!block && expected.contains(servers) && expected[servers].contains(entry.name)) {
    return Error(Code::kExists, fmt::format("the configuration has a server {} already", quote(entry.name)),
                 "remove it, or choose another name with --name");
  }
  expected[servers][entry.name] = {{"command", entry.command}, {"args", entry.arguments}};
  if (block) {
    made.replace(block->begin, block->end - block->begin, toml_block(client, entry));
    return checked_toml(client, std::move(made), expected);
  }
  if (!made.empty() && !made.ends_with('\n')) made += '\n';
  if (!made.empty()) made += '\n';
  return checked_toml(client, made + toml_block(client, entry), expected);
}

Result<std::string> without_toml(const ClientConfig& client, std::string_view text, const Block& block,
                                 const std::string& name) {
  Json expected = WARREN_TRY(parse_toml_config(client, text));
  std::string servers(client.servers);
  if (expected.contains(servers) && expected[servers].is_object()) {
    expected[servers].erase(name);
    if (expected[servers].empty()) expected.erase(servers);
  }
  std::string left(text.substr(0, block.begin));
  if (left.ends_with("\n\n")) left.pop_back();  // the empty line that was put before it
  left += text.substr(block.end);
  Result<Json> value = parse_toml(left);
  bool has_empty = value.ok() && value->contains(servers) && (*value)[servers].empty();
  if (has_empty) expected[servers] = Json::object();  // a header of its own stays
  return checked_toml(client, std::move(left), expected);
}

}  // namespace

std::span<const ClientConfig> client_configs() { return kClients; }

const ClientConfig* find_client_config(std::string_view name) {
  auto found = std::ranges::find(kClients, name, &ClientConfig::name);
  return found == kClients.end() ? nullptr : &*found;
}

Status check_server_name(std::string_view name) {
  bool is_plain =
      std::none_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (!name.empty() && name.size() <= kServerNameBytes && is_plain && is_utf8(name)) return Ok{};
  return Error(
      Code::kInvalid, fmt::format("{} cannot be the name of a server in a configuration", quote(name)),
      fmt::format("choose another with --name: 1 to {} bytes of UTF-8 without control characters", kServerNameBytes));
}

std::string entry_text(const ClientConfig& client, const ServerEntry& entry) {
  if (client.format == ConfigFormat::kToml) return toml_block(client, entry);
  Json whole = Json::object();
  whole[std::string(client.servers)][entry.name] = entry_json(client, entry);
  return dump_json_pretty(whole) + "\n";
}

Result<std::string> with_entry(const ClientConfig& client, std::string_view text, const ServerEntry& entry) {
  WARREN_TRY(check_server_name(entry.name));
  if (client.format == ConfigFormat::kToml) return with_toml(client, text, entry);
  Json config = WARREN_TRY(parse_config(client, text));
  config[std::string(client.servers)][entry.name] = entry_json(client, entry);
  return dump_json_pretty(config) + "\n";
}

Result<std::string> without_entry(const ClientConfig& client, std::string_view text, std::string_view name) {
  Error missing(Code::kNotFound, fmt::format("{} has no server {}", client.title, quote(name)));
  if (client.format == ConfigFormat::kToml) {
    std::optional<Block> block = find_block(text, name);
    if (!block) return missing;
    return without_toml(client, text, *block, std::string(name));
  }
  Json config = WARREN_TRY(parse_config(client, text));
  auto servers = config.find(std::string(client.servers));
  if (servers == config.end() || servers->erase(std::string(name)) == 0) return missing;
  return dump_json_pretty(config) + "\n";  // an empty object stays: it may have been there before
}

}  // namespace warren::mcp
