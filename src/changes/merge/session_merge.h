// Merges the changes of one agent into another with the same base.
//
// Three-way, file by file: what the second agent first saw, what the first has now, and what the second made of it. A
// file that only one of them has changed is taken from that one; text that both have changed is merged by lines. A
// rename is followed on both sides. See docs/design/changes.md.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"

namespace warren {

enum class OnMergeConflict {
  kReport,  // the first agent's version stays, and the conflict is reported
  kMark,    // text gets conflict markers; of anything else both versions are kept
  kFirst,   // the first agent's version
  kSecond,  // the second's
};

struct SessionMergeOptions {
  std::string first = "first";  // names of both, for messages, markers and branches
  std::string second = "second";
  OnMergeConflict on_conflict = OnMergeConflict::kReport;
};

struct SessionConflict {
  std::string path;  // in the first agent
  std::string why;
  std::string outcome;      // what was done about it; "" with kReport
  bool is_settled = false;  // by kFirst or kSecond: nothing remains to be done
  bool has_second = false;  // by kMark: the second agent's version is there
};

struct SessionMerge {
  std::size_t taken = 0;            // changes of the second agent that were taken as they are
  std::vector<std::string> merged;  // text files that combine both
  std::vector<SessionConflict> conflicts;
  std::vector<std::string> branches;  // of the first agent's repository: the commits of the second one

  bool is_settled() const;  // no conflict waits for a decision
};

// `first` is changed, `second` is not. Everything that git keeps in a .git of the base is left out, but commits of the
// second agent become branches of the first (changes/commits/merge_commits.h); what is in .agentfs folders is left out
// too. kInvalid if they have different bases. After an error `first` may be half merged: work on a copy.
Result<SessionMerge> merge_into(const AgentOverlay& first, const AgentOverlay& second,
                                const SessionMergeOptions& options);

}  // namespace warren
