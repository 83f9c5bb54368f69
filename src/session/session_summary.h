// What a session has that its base lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/sessions.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// One of SessionSummary::left: of a session whose agent has committed.
inline constexpr const char* kIgnoredFiles = "files that git ignores";

struct SessionSummary {
  ChangeSummary changes;           // without those in .git, and without kIgnoredFiles
  std::vector<std::string> files;  // what they change, sorted: a renamed file by both names
  bool has_commits = false;        // that the base's repository does not have
  bool has_git_objects = false;    // the same for objects of git: those of commits, or that no branch names
  std::vector<std::string> left;   // what no apply takes out of the session: "the stash", "memory"

  // Whether nothing is lost with the session. The only definition: it may then be deleted without a question.
  bool is_empty() const {
    std::uint64_t count = changes.added + changes.modified + changes.deleted + changes.renamed;
    return count == 0 && !has_commits && !has_git_objects && left.empty();
  }
  // The same, but for files that git ignores.
  bool is_empty_but_for_ignored() const {
    SessionSummary rest = *this;
    std::erase(rest.left, kIgnoredFiles);
    return rest.is_empty();
  }
};
// The session's changes to its base.
Result<SessionSummary> summarise_session(const SessionDir& session, Clock& clock);

}  // namespace warren
