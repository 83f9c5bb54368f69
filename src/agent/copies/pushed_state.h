// The state of an agent in a blob store (agent/copies/pushed.h), and its JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace warren {

struct PushedCheckpoint {
  std::int64_t id = 0;
  std::string name;
  std::int64_t at_us = 0;
};

struct PushedState {
  std::string name;                     // of the state: its time, "20261117T193000.123456Z"
  std::optional<std::string> identity;  // of the agent (store/identity.h); states of older versions have none
  std::uint64_t size_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::string hash;                 // of the whole file
  std::vector<std::string> blocks;  // their hashes, in order; the last one may be shorter
  std::vector<PushedCheckpoint> checkpoints;
};

// Larger blocks for a larger file, so that a state does not name too many.
std::uint64_t block_bytes_for(std::uint64_t size);
std::uint64_t length_of_block(const PushedState& state, std::size_t index);

Json json_of_pushed(const PushedState& state, const std::string& agent);
// Without its name, which is not in the text. kCorrupt; kUnsupported if it is of a newer version.
Result<PushedState> parse_pushed_state(std::string_view text);

// For a state that cannot be pulled.
Error damaged_state(std::string_view why);

}  // namespace warren
