// Our own notes about agents that have a base, in ~/.agentfs/bases, which no agent can reach.
//
// An agent file is a stranger's input: it says which directory its base is, but not that the user agreed to write
// there. `init --base` and `run` store a note when they create the agent; a file from elsewhere gets one when the user
// agrees. The note belongs to the file itself (its inode and time of birth), so it follows a rename and not a copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

// Recognises a node of the host, also after a reboot, when the device number may be another.
struct HostIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t born_ns = 0;  // 0 if the filesystem does not record it; then the device counts

  bool is_same(const HostIdentity& other) const;
  bool operator==(const HostIdentity&) const = default;
};
Result<HostIdentity> identify_host_node(const std::string& path);  // follows links

struct BaseNote {
  std::string base;  // as in the agent file
  HostIdentity base_node;
  std::string commit;               // HEAD of the base's git repository when the note was made; "" without one
  std::vector<std::string> hidden;  // absolute paths in the base that some run did not show
};

// Stores that the user agreed to this base, with its current HEAD. Replaces an older note of the file.
Status put_base_note(const std::string& agent_path, const std::string& base);
// Adds paths that a run hides. Without a note, nothing is stored.
Status add_hidden_paths(const std::string& agent_path, const std::vector<std::string>& paths);
Result<std::optional<BaseNote>> find_base_note(const std::string& agent_path);
Status remove_base_note(const std::string& agent_path);  // succeeds if there is none

}  // namespace warren
