// A temporary git repository of ours with the objects that an agent added to the base's repository.
//
// Nothing else comes from the agent: no settings, hooks, references or alternates. It borrows the remaining objects
// from the base's repository, and is never written back to the base except by git's own fetch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/git/git.h"

namespace warren {

namespace limits {
inline constexpr std::size_t kGitObjects = 1'000'000;                      // files copied to the quarantine
inline constexpr std::uint64_t kGitObjectBytes = std::uint64_t{16} << 30;  // of all of them
inline constexpr const char* kGitStreamedAbove = "32m";                    // larger files are never whole in memory
}  // namespace limits

// What a file of a repository is, by its path below "objects/". Indexes, lists of alternates and temporary files are
// kNone.
enum class ObjectFile { kNone, kLoose, kPack };
ObjectFile object_file_of(std::string_view name);

// Creates the repository at `path`. `base` runs in the base's repository. `all` are the changes of the agent, with
// those in "/.git". kCorrupt for a pack that git does not accept, kTooLarge; kTimeout, also at the deadline of `base`.
Status make_quarantine(const AgentOverlay& overlay, const std::vector<TreeChange>& all, Git& base,
                       const std::string& path);

// Makes a commit of the agent's known to `base`, which runs in the base's repository, unless that has it. The directory
// that this returns is in use by `base` then.
Result<std::optional<ScratchDir>> borrow_commit(const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                                                const std::string& commit, Git& base);

}  // namespace warren
