// Requests in the bodies of messages of KIND spawn, release and continuity: lines `KEY: value`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "relay/protocol/message.h"

namespace warren::relay {

struct SpawnRequest {
  std::string name;
  std::string cli;
  std::string prompt;       // any bytes except NUL
  std::string working_dir;  // empty: the first configured root
  std::vector<std::pair<std::string, std::string>> env;
};

// PROMPT may continue over the following lines, up to one that starts with another key in capitals. After a bare line
// `PROMPT:`, everything that follows is the prompt. ENV is KEY=value,KEY=value and may be repeated. kInvalid.
Result<SpawnRequest> parse_spawn_request(std::string_view body);
std::string write_spawn_request(const SpawnRequest& request);

struct ReleaseRequest {
  std::string name;
  std::string reason;
};

Result<ReleaseRequest> parse_release_request(std::string_view body);

enum class ContinuityAction { kSave, kLoad };

struct ContinuityRequest {
  ContinuityAction action = ContinuityAction::kLoad;
  std::optional<std::int64_t> version;  // for kLoad; nullopt: the newest
  std::string state;                    // for kSave
};

// Either ACTION is a header and the state is the body, or ACTION is the body's first line and the state follows a blank
// line.
Result<ContinuityRequest> parse_continuity_request(const Message& message);

}  // namespace warren::relay
