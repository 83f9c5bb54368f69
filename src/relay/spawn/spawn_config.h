// What config.json says about agents that the relay starts: `spawn`, `continuity`. Nothing is started unless an
// operator wrote here what may be.
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

// What a key of `clis` stands for.
struct CliTemplate {
  std::vector<std::string>
      argv;                   // with {prompt}, {name}, {dir}, {root}, {inbox}, {outbox}: replaced literally, no shell
  bool is_sandboxed = false;  // inside `warren run`
  std::chrono::milliseconds timeout{0};  // then it is released; 0: never
};

struct SpawnConfig {
  std::map<std::string, CliTemplate, std::less<>> clis;
  std::vector<std::string> roots;  // absolute: working directories are below one of them
  std::vector<std::string> env;  // names, or prefixes ending with `*`: what a request may set and we pass on of our own
  std::int64_t count_max = 16;   // processes at a time
  std::int64_t depth_max = 3;    // of agents started by agents
  std::int64_t per_minute = 30;  // by one agent
  bool requires_token = false;   // of what spawned agents send
  std::chrono::milliseconds notice{2000};  // between the word that an agent is released and SIGTERM
  std::chrono::milliseconds grace{5000};   // between SIGTERM and SIGKILL
  std::chrono::milliseconds orphan{0};     // after so long without a living ancestor it is released; 0: never
};

struct ContinuityConfig {
  std::uint64_t bytes_max = 1U << 20;  // of one state
  std::int64_t versions = 8;           // kept of each agent
};

// Both: kInvalid names the key.
Result<SpawnConfig> parse_spawn_config(const Json& json);
Result<ContinuityConfig> parse_continuity_config(const Json& json);

// Calls `value_of` with each placeholder's name; what it returns is not looked at again.
template <class ValueOf>
std::string fill_placeholders(std::string_view text, ValueOf value_of);

// Variables by which a loader, a shell or an interpreter is made to run something else, and those the relay itself
// sets.
bool is_unsafe_variable(std::string_view name);
bool is_variable_name(std::string_view name);  // a letter or `_`, then letters, digits, `_`
// By the list, and safe.
bool is_allowed_variable(const std::vector<std::string>& list, std::string_view name);

// The `{word}` that begins at `at`, without braces; "" if there is none.
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
