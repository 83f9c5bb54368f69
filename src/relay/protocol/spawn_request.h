// What agents ask of the relay in the bodies of KIND spawn, release and continuity: lines `KEY: value`.
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
  std::string prompt;       // any bytes but NUL
  std::string working_dir;  // "": the operator's first root
  std::vector<std::pair<std::string, std::string>> env;
};

// PROMPT may run over the lines that follow, up to one that begins with another key in capitals. After a line `PROMPT:`
// that holds nothing more, all that follows is the prompt, whatever it says. ENV is KEY=value,KEY=value and may come
// again. kInvalid.
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
  std::optional<std::int64_t> version;  // of load; the newest otherwise
  std::string state;                    // of save
};

// ACTION is a header, and the state is the body; or it is the body's first line, and the state follows a blank one.
Result<ContinuityRequest> parse_continuity_request(const Message& message);

}  // namespace warren::relay
