#include "agent/copies/pushed_state.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "base/strict_json.h"
#include "store/identity.h"

namespace warren {
namespace {

constexpr std::uint64_t kBlockBytes = 64ULL << 10;
constexpr std::uint64_t kBlockBytesMax = 64ULL << 20;
constexpr std::uint64_t kBlocksMax = 65'536;  // of one state, by larger blocks

bool is_block_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

template <class T>
bool take_member(const Json& json, const char* name, T& out) {
  auto member = json.find(name);
  if (member == json.end()) return false;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!member->is_string()) return false;
  } else if constexpr (std::is_unsigned_v<T>) {
    if (!member->is_number_unsigned()) return false;
  } else {
    if (!member->is_number_integer()) return false;
  }
  out = member->get<T>();
  return true;
}

Status take_blocks(const Json& json, PushedState& state) {
  auto blocks = json.find("blocks");
  if (blocks == json.end() || !blocks->is_array()) return damaged_state("it has no 'blocks'");
  bool is_size_right = state.size_bytes > 0 && state.size_bytes <= kBlocksMax * kBlockBytesMax &&
                       state.block_bytes == block_bytes_for(state.size_bytes);
  if (!is_size_right || blocks->size() != (state.size_bytes - 1) / state.block_bytes + 1) {
    return damaged_state("its sizes and blocks do not match");
  }
  for (const Json& hash : *blocks) {
    if (!hash.is_string() || !is_block_hash(hash.get_ref<const std::string&>())) {
      return damaged_state("a block has no SHA-256");
    }
    state.blocks.push_back(hash.get<std::string>());
  }
  return Ok{};
}

}  // namespace

std::uint64_t block_bytes_for(std::uint64_t size) {
  std::uint64_t bytes = kBlockBytes;
  while (bytes < kBlockBytesMax && size / bytes >= kBlocksMax) bytes *= 2;
  return bytes;
}

std::uint64_t length_of_block(const PushedState& state, std::size_t index) {
  return std::min(state.block_bytes, state.size_bytes - index * state.block_bytes);
}

Json json_of_pushed(const PushedState& state, const std::string& agent) {
  Json json{{"version", 1}, {"agent", agent}, {"size_bytes", state.size_bytes}, {"block_bytes", state.block_bytes}};
  json["sha256"] = state.hash;
  if (state.identity) json["identity"] = *state.identity;
  json["checkpoints"] = Json::array();
  for (const PushedCheckpoint& one : state.checkpoints) {
    json["checkpoints"].push_back({{"id", one.id}, {"name", one.name}, {"taken_at_us", one.at_us}});
  }
  json["blocks"] = state.blocks;
  return json;
}

Error damaged_state(std::string_view why) {
  return {
      Code::kCorrupt, fmt::format("it is damaged: {}", why),
      "pull an older state with --state (`warren checkpoint ID remote ADDRESS` lists them), or push the agent again"};
}

Result<PushedState> parse_pushed_state(std::string_view text) {
  Result<Json> parsed = parse_strict_json(text);
  if (!parsed.ok()) return damaged_state(parsed.error().message());
  const Json& json = *parsed;
  PushedState state;
  std::uint64_t version = 0;
  if (!json.is_object() || !take_member(json, "version", version)) return damaged_state("it has no 'version'");
  if (version != 1) {
    return Error(Code::kUnsupported, fmt::format("version {} is unknown", version), "a newer warren can pull it");
  }
  if (!take_member(json, "size_bytes", state.size_bytes) || !take_member(json, "block_bytes", state.block_bytes) ||
      !take_member(json, "sha256", state.hash)) {
    return damaged_state("'size_bytes', 'block_bytes' or 'sha256' is missing");
  }
  if (std::string identity; take_member(json, "identity", identity)) {
    if (!is_identity(identity)) return damaged_state("'identity' is not valid");
    state.identity = std::move(identity);
  }
  WARREN_TRY(take_blocks(json, state));
  if (auto all = json.find("checkpoints"); all != json.end() && all->is_array()) {
    for (const Json& one : *all) {
      PushedCheckpoint checkpoint;
      bool is_whole = one.is_object() && take_member(one, "id", checkpoint.id) &&
                      take_member(one, "name", checkpoint.name) && take_member(one, "taken_at_us", checkpoint.at_us);
      if (is_whole) state.checkpoints.push_back(std::move(checkpoint));
    }
  }
  return state;
}

}  // namespace warren
