#include "session/run_preferences.h"

#include <algorithm>
#include <array>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/json.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "sandbox/view/plan.h"
#include "toml/toml.h"
#include "vfs/mount_spec.h"

namespace warren {
namespace {

constexpr std::size_t kPreferencesBytes = std::size_t{1} << 20;

Error bad_key(std::string_view key, std::string_view wanted) {
  return {Code::kInvalid, fmt::format("{} must be {}", quote(key), wanted)};
}

Result<std::vector<std::string>> words_of(std::string_view key, const Json& value) {
  if (value.is_string()) return std::vector<std::string>{value.get<std::string>()};
  if (!value.is_array()) return bad_key(key, "a text or a list of texts");
  std::vector<std::string> words;
  for (const Json& one : value) {
    if (!one.is_string()) return bad_key(key, "a text or a list of texts");
    words.push_back(one.get<std::string>());
  }
  return words;
}

// Numbers may be given as such.
Result<std::string> word_for(std::string_view key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_unsigned()) return std::to_string(value.get<std::uint64_t>());
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) return std::to_string(value.get<std::int64_t>());
  return bad_key(key, "a text or a whole number");
}

Result<std::string> choice_for(std::string_view key, const Json& value, std::array<std::string_view, 2> choices) {
  bool is_one =
      value.is_string() && std::find(choices.begin(), choices.end(), value.get<std::string>()) != choices.end();
  if (!is_one) return bad_key(key, fmt::format("\"{}\" or \"{}\"", choices[0], choices[1]));
  return value.get<std::string>();
}

Status take_keys(const Json& table, RunPreferences& preferences) {
  for (const auto& [key, value] : table.items()) {
    if (key == "project") continue;
    if (key == "net") {
      preferences.net = WARREN_TRY(words_of(key, value));
    } else if (key == "env") {
      std::vector<std::string> names = WARREN_TRY(words_of(key, value));
      preferences.env.insert(preferences.env.end(), names.begin(), names.end());
    } else if (key == "memory") {
      preferences.memory = WARREN_TRY(word_for(key, value));
    } else if (key == "processes") {
      preferences.processes = WARREN_TRY(word_for(key, value));
    } else if (key == "cpu-time") {
      preferences.cpu_time = WARREN_TRY(word_for(key, value));
    } else if (key == "disk") {
      preferences.disk = WARREN_TRY(word_for(key, value));
    } else if (key == "home") {
      preferences.home = WARREN_TRY(choice_for(key, value, {"tools", "all"}));
    } else if (key == "home-layer") {
      preferences.home_layer = WARREN_TRY(choice_for(key, value, {"shared", "project"}));
    } else if (key == "relay") {
      preferences.relay = WARREN_TRY(word_for(key, value));
      if (!preferences.relay->starts_with('/')) return bad_key(key, "an absolute path");
    } else if (key == "relay-as") {
      preferences.relay_as = WARREN_TRY(word_for(key, value));
    } else if (key == "mount") {
      preferences.mount = WARREN_TRY(words_of(key, value));
      for (const std::string& word : preferences.mount) WARREN_TRY(parse_mount(word, "/").within(quote(key)));
    } else if (key == "mounts") {
      preferences.mounts = WARREN_TRY(word_for(key, value));
      if (!preferences.mounts->starts_with('/')) return bad_key(key, "an absolute path");
    } else if (key == "anchor") {
      preferences.anchor = WARREN_TRY(word_for(key, value));
      bool is_relative = !preferences.anchor->starts_with('/') && preferences.anchor->find(':') == std::string::npos;
      if (is_relative) return bad_key(key, "an absolute path, agent:ID, or the address of a backend");
    } else if (key == "anchor-every") {
      preferences.anchor_every = WARREN_TRY(word_for(key, value));
    } else if (key == "namespace") {
      if (!value.is_boolean()) return bad_key(key, "true or false");
      preferences.has_namespace = value.get<bool>();
    } else {
      return Error(Code::kInvalid, fmt::format("{} is not a known key", quote(key)),
                   "the keys are net, env, memory, processes, cpu-time, disk, home, home-layer, namespace, mount, "
                   "mounts, relay, relay-as, anchor, anchor-every, and tables [project.\"/path\"]");
    }
  }
  return Ok{};
}

}  // namespace

Result<std::string> preferences_file() { return config_file("run.toml"); }

Result<RunPreferences> parse_preferences(std::string_view text, const std::string& base) {
  Json all = WARREN_TRY(parse_toml(text));
  RunPreferences preferences;
  WARREN_TRY(take_keys(all, preferences));
  if (!all.contains("project")) return preferences;
  const Json& projects = all["project"];
  if (!projects.is_object()) return bad_key("project", "a table: [project.\"/path\"]");
  std::vector<std::pair<std::string, const Json*>> around;
  for (const auto& [path, table] : projects.items()) {
    if (!path.starts_with('/') || !table.is_object()) return bad_key("project", "a table: [project.\"/path\"]");
    std::string dir = path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
    // Checked even if it is another project's: a mistake should not wait for the day it matters.
    RunPreferences checked;
    WARREN_TRY(take_keys(table, checked).within(fmt::format("[project.\"{}\"]", path)));
    if (is_within(base, dir)) around.emplace_back(dir, &table);
  }
  std::sort(around.begin(), around.end(), [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  for (const auto& [dir, table] : around) WARREN_TRY(take_keys(*table, preferences));
  return preferences;
}

Result<RunPreferences> load_preferences(const std::string& base) {
  std::string path = WARREN_TRY(preferences_file());
  Result<std::optional<struct stat>> found = find_host_file(path);
  if (!found.ok() && found.error().code() == Code::kNotDirectory) return RunPreferences{};
  std::optional<struct stat> there = WARREN_TRY(std::move(found));
  if (!there) return RunPreferences{};
  bool is_ours = there->st_uid == ::geteuid() || there->st_uid == 0;
  if (!is_ours || (there->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error(Code::kDenied, fmt::format("{} can be written by others, and decides what a run may do", quote(path)),
                 fmt::format("make it yours alone: chmod go-w {}", path));
  }
  std::string text = WARREN_TRY(read_host_file(path, kPreferencesBytes).within(quote(path)));
  return parse_preferences(text, base).within(quote(path));
}

}  // namespace warren
