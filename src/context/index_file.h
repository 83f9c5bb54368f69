// The file of an agent's search index: <id>.index.db beside <id>.db.
//
// Everything in it is derived from the agent, so it is never repaired: a file that is missing, damaged, of another
// agent, of another version or not only ours is replaced by an empty one.
#pragma once

#include <memory>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "db/database.h"

namespace warren {

// The one place that decides where the index of an agent is. An index has the text of the files in it, so it must be
// protected like the agent file itself.
std::string index_path_of(const Agent& agent);

// Tells agents apart: copies of one agent have the same, other agents another.
Result<std::string> index_identity_of(Agent& agent);

// Opens the index at `path`, or makes it. In memory if the folder cannot be written, or with the path ":memory:".
Result<std::unique_ptr<Database>> open_index_file(const std::string& path, const std::string& identity);

// Replaces the file, also while other processes use it: they notice with Database::check_name.
Result<std::unique_ptr<Database>> replace_index_file(const std::string& path, const std::string& identity);

// Whether an error means that the index must be made again.
bool is_index_damage(const Error& error);

}  // namespace warren
