// Where an agent's file is: from what a user types (an id or a path) to a path.
//
// The agents of a directory live in its .agentfs folder, one <id>.db each. The rules are AgentFS's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

inline constexpr std::string_view kAgentsDir = ".agentfs";
inline constexpr std::string_view kMemoryAgent = ":memory:";

// Letters, digits, '-' and '_': nothing that could lead out of the folder.
bool is_agent_id(std::string_view id);
Status check_agent_id(std::string_view id);

std::string path_of_agent(std::string_view id);  // ".agentfs/<id>.db"

// The first of: ":memory:" itself; an id whose file is in ./.agentfs; a file of that path; the session of
// `warren run` with that id (agent/sessions.h). Else kNotFound for what could be an id, kInvalid for what
// could not; the hint names what there is.
Result<std::string> locate_agent(std::string_view id_or_path);

// The ids in ./.agentfs, sorted. Empty when there is no such folder.
Result<std::vector<std::string>> list_agents();

}  // namespace warren
