// The state of git at the start of a session, kept in the session: HEAD, index and references are one consistent state.
//
// An overlay shows the base as it is now. For the state of git that is wrong: after a commit on the host, a session
// would have its own index and the host's HEAD, and its next commit would revert the host's. So a new session gets a
// directory `.git` of its own in its upper layer. HEAD, index, settings, all references and whatever says that a merge
// or rebase is under way are copied, and so are the logs that git appends to; the other directories (objects, hooks,
// info, modules, lfs) show the base's.
// Names that appear in the base's `.git` later, such as locks, are not seen.
//
// A file in it, the record, has HEAD and the references of that moment. Every copied file has the record's time until
// something changes it: what still has it is no change of the agent's. See docs/design/changes.md, "The state of git".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/git/git_refs.h"

namespace warren {

namespace limits {
inline constexpr std::uint64_t kGitIndexBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kGitStateFileBytes = std::uint64_t{16} << 20;  // any other file of the state
inline constexpr std::uint64_t kGitStateBytes = 2 * kGitIndexBytes;           // all of them together
inline constexpr std::uint64_t kGitLogsBytes = std::uint64_t{64} << 20;       // all logs that are copied
inline constexpr std::size_t kGitStateFiles = 10'000;
}  // namespace limits

struct GitState;  // changes/pinned/git_state.h

// Below .git; git does not know them.
inline constexpr std::string_view kPinRecord = "warren-session";
inline constexpr std::string_view kAppliedRecord = "warren-applied";
inline constexpr std::string_view kBroughtRecord = "warren-brought";

// What the session had at its start.
struct PinnedGit {
  Timestamp made;            // the time of the copied files
  Timestamp begun;           // by the host's clock
  std::string head;          // the commit; "" before the first one
  GitReferences references;  // "refs/heads/main" → the object's id
};

// The content of the record, and back. `head` is a commit or "". In records of older versions `begun` is missing.
std::string write_pin_record(const std::string& head, const GitReferences& references, Timestamp begun);
PinnedGit parse_pin_record(std::string_view text);

// The time that all copied files have; nullopt if the agent's git state is not pinned. Within a unit of the upper
// layer.
Result<std::optional<Timestamp>> find_pin_time(UpperLayer& upper);
// nullopt also if the record is larger than any that we write.
Result<std::optional<PinnedGit>> find_pinned_git(const AgentOverlay& overlay);

// Copies the state of git into a new agent. False, with nothing changed, if the base's `.git` is not an ordinary
// repository of the user's: no directory, links in place of HEAD, index or references, or more than the limits allow.
// Not through the merged tree: an agent that is open has to be opened again.
Result<bool> pin_git(const AgentOverlay& overlay);
Result<bool> pin_git(Agent& agent);  // false without a base
// Shows all objects of the base in a pinned state, also in directories that the agent's git has removed or made again
// when it packed them: the base's HEAD may be one of them, and to see an object twice does no harm. True if something
// was hidden: the agent has to be opened again.
Result<bool> show_base_objects(const AgentOverlay& overlay);
// Writes the commit that the base's HEAD has now as the reference `refs/warren/base` of a pinned state, so that an
// agent can merge newer work of the base. Runs git for the base of a linked worktree.
Status show_base_head(Agent& agent);
// What the session has written to its base, by path: from then on it shows there what the base has. Does nothing
// without a pinned state. Within a write unit of the upper layer.
Status add_applied_paths(UpperLayer& upper, const std::vector<std::string>& paths);
Result<std::vector<std::string>> list_applied_paths(UpperLayer& upper);
// Other records beside these. "" if there is none, and nothing is written without a pinned state or above the limit. An
// empty text removes the record. Within a unit of the upper layer.
Result<std::string> read_git_record(UpperLayer& upper, std::string_view name);
Status write_git_record(UpperLayer& upper, std::string_view name, std::string_view text);
// Drops the agent's `.git` with everything that the agent did in it, and pins a state of the base, as read_git_state
// returned it. Within a write unit of the upper layer: so the state is read before, since that can wait for git.
Status pin_git_again(UpperLayer& upper, const std::optional<GitState>& state);

}  // namespace warren
