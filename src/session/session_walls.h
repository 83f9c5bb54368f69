// The restrictions that runs of a session asked for, kept with the session: later runs that do not say otherwise have
// them too. What widens a sandbox (--allow, --read, --home all) holds for one run and is not kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/run_session.h"

namespace warren {

struct SessionWalls {
  std::optional<std::vector<std::string>> net;  // words as parse_network takes them
  std::vector<std::string> hide;                // canonical
  bool shows_only_tools = false;                // of the home (--home tools)
  bool has_default_allows = true;

  bool operator==(const SessionWalls&) const = default;
};

// Those in a session's folder. kCorrupt.
Result<SessionWalls> load_walls(const std::string& session_dir);
Status store_walls(const std::string& session_dir, const SessionWalls& walls);

// Each in a few words, for people: "network none".
std::vector<std::string> describe_walls(const SessionWalls& walls);

// For a session made of two: what either of them keeps out.
SessionWalls join_walls(const SessionWalls& first, const SessionWalls& second);

struct TakenWalls {
  SessionWalls walls;                // to keep
  std::vector<std::string> taken;    // what this run has because of an earlier one, for people
  std::vector<std::string> missing;  // paths to hide that do not exist now
};

// Adds the kept restrictions to the options of a run that starts a sandbox. What the options say themselves counts
// more: --net replaces the kept network, and `--net all`, --read PATH, --home all and --default-allows lift one.
// --allow of a hidden path counts for this run only. Where the user's preferences restrict the network, the kept one
// only restricts it further.
Result<TakenWalls> take_walls(const SessionWalls& kept, RunOptions& options);

}  // namespace warren
