// The sections `spawn` and `continuity` of config.json, about agents that the relay starts. The relay starts only
// programs that are listed there.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace warren::relay {

// The value of a key in `clis`.
struct CliTemplate {
  // {prompt}, {name}, {dir}, {root}, {inbox} and {outbox} are replaced literally, without a shell.
  std::vector<std::string> argv;
  bool is_sandboxed = false;             // inside `warren run`
  std::string user;                      // whom it runs as: a name, UID or UID:GID; empty: as the relay
  std::chrono::milliseconds timeout{0};  // the agent is released after that; 0: never
};

struct SpawnConfig {
  std::map<std::string, CliTemplate, std::less<>> clis;
  std::vector<std::string> roots;  // absolute; working directories must be below one of them
  // Names or prefixes (`X*`) that a request may set and that we pass on from our environment.
  std::vector<std::string> env;
  std::int64_t count_max = 16;             // concurrent processes
  std::int64_t depth_max = 3;              // of agents starting agents
  std::int64_t per_minute = 30;            // spawned by one agent
  bool requires_token = false;             // in messages from spawned agents
  std::chrono::milliseconds notice{2000};  // between the release message and SIGTERM
  std::chrono::milliseconds grace{5000};   // between SIGTERM and SIGKILL
  std::chrono::milliseconds orphan{0};     // an agent without a living ancestor is released after that; 0: never
};

struct ContinuityConfig {
  std::uint64_t bytes_max = 1U << 20;  // per state
  std::int64_t versions = 8;           // kept per agent
};

// kInvalid: the message names the key.
Result<SpawnConfig> parse_spawn_config(const Json& json);
Result<ContinuityConfig> parse_continuity_config(const Json& json);

// Replaces each placeholder by value_of(name). The values are not scanned for placeholders.
template <class ValueOf>
std::string fill_placeholders(std::string_view text, ValueOf value_of);

// Variables that make a loader, shell or interpreter run other code, and those that the relay itself sets.
bool is_unsafe_variable(std::string_view name);
bool is_variable_name(std::string_view name);  // a letter or `_`, then letters, digits, `_`
// In the list, and not unsafe.
bool is_allowed_variable(const std::vector<std::string>& list, std::string_view name);

// The `{word}` that starts at `at`, without braces; empty if there is none.
std::string_view placeholder_at(std::string_view text, std::size_t at);

template <class ValueOf>
std::string fill_placeholders(std::string_view text, ValueOf value_of) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::string_view word = placeholder_at(text, at);
    if (word.empty()) {
      out += text[at++];
    } else {
      out += value_of(word);
      at += word.size() + 2;
    }
  }
  return out;
}

}  // namespace warren::relay
