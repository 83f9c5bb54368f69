// Finds an agent's file by id or path.
//
// The agents of a directory are in its .agentfs folder, one <id>.db each. The rules are AgentFS's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

inline constexpr std::string_view kAgentsDir = ".agentfs";
inline constexpr std::string_view kMemoryAgent = ":memory:";

// Letters, digits, '-' and '_' only, so that an id cannot lead out of the folder.
bool is_agent_id(std::string_view id);
Status check_agent_id(std::string_view id);

std::string path_of_agent(std::string_view id);  // ".agentfs/<id>.db"

// A session whatever else has its name: "session:fix".
inline constexpr std::string_view kSessionPrefix = "session:";
// The id without that prefix, for commands that take only sessions.
std::string_view session_id_of(std::string_view id);

// Returns the first match of: ":memory:" itself; "session:ID"; an id whose file is in ./.agentfs; the path of a file;
// the id of a `warren run` session (agent/sessions.h), or, of one whose id `run` has made up, a unique beginning of
// three letters or more. kConflict if a session and a file have the name: whoever can create files here must not decide
// which one a command means. Otherwise kNotFound, or kIsDirectory for a directory; the hint lists the agents that
// exist.
Result<std::string> locate_agent(std::string_view id_or_path);

// The ids in ./.agentfs, sorted. Empty if the folder does not exist.
Result<std::vector<std::string>> list_agents();

}  // namespace warren
