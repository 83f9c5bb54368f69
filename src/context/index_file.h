// The file of an agent's search index: <id>.index.db beside <id>.db.
//
// Everything in it is derived from the agent, so it is never repaired: a file that is missing, damaged, of another
// agent, of another version or not only ours is replaced by an empty one.
#pragma once

#include <memory>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "db/cipher.h"
#include "db/database.h"

namespace warren {

struct IndexPlace {
  std::string path;  // ":memory:" for an agent in memory
  // Tells agents apart: copies of one agent have the same, other agents another.
  std::string identity;
  // The agent's own, null if it has none: the index has the text of the files in it, so it is encrypted if they are.
  SharedDatabaseKey key;
};
Result<IndexPlace> index_place_of(Agent& agent);

// Opens the index, or makes it. In memory if the folder cannot be written.
Result<std::unique_ptr<Database>> open_index_file(const IndexPlace& place);

// Replaces the file, also while other processes use it: they notice with Database::check_name.
Result<std::unique_ptr<Database>> replace_index_file(const IndexPlace& place);

// Whether an error means that the index must be made again.
bool is_index_damage(const Error& error);

}  // namespace warren
