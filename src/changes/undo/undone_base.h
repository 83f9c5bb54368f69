// What the steps of an undo have done to the base, and what the agent may be said to have seen of that.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "changes/apply/intent.h"
#include "fs/types.h"

namespace warren {

class UndoneBase {
 public:
  explicit UndoneBase(const Intent& intent);  // which must outlive it

  // The renames of the apply: new path → the path that the node has again.
  const std::unordered_map<std::string, std::string>& renamed_back() const { return renamed_back_; }

  // The name that the apply gave to a node which has this one again; nullptr if it did not rename it.
  const std::string* find_renamed(const std::string& path) const;

  // Whether the apply had given it another name, or a directory above it.
  bool was_renamed(const std::string& path) const;

  // Whether the apply had put it there. In a directory that has its old name again it was removed under the new one.
  bool has_removed(const std::string& path) const;

  // The agent's own version of a file that the apply had written with conflict markers; nullptr. Not of one that it had
  // renamed, or a directory above it: that is in conflict again, but the session keeps the markers.
  const AppliedChange::Own* find_own(const std::string& path) const;
  const std::unordered_map<std::string, const AppliedChange::Own*>& own() const { return own_; }

  // Every node that the undo put somewhere or changed, also those in a directory that it put back.
  const std::unordered_map<std::string, HostNode>& written() const { return written_; }
  // Only as the undo has left it: a later edit is one that the agent has not seen. The agent need not have seen this
  // one either: what is recorded of it must come from find_known.
  bool has_written(const std::string& path, const Attributes& now) const;

  // What the agent knew of a name before the apply, to be recorded after the undo.
  struct Known {
    std::optional<Attributes> seen;  // absent: the base has nothing there
  };
  // `now` is what the base has there, and `recorded` is what the agent's node is compared with. The result is `now`, or
  // something else if the apply had replaced work there that the agent had not seen, or had put conflict markers around
  // it: so the conflict with that work is back. nullopt: what is recorded stays. The undo has not left the name like
  // this, or the agent's file is in conflict because the apply had merged a part of it.
  std::optional<Known> find_known(const std::string& path, const std::optional<Attributes>& now,
                                  const std::optional<Attributes>& recorded) const;

 private:
  bool is_half_merged(const std::string& path, const std::optional<Attributes>& recorded) const;
  bool has_removed_below(const std::string& dir, const std::string& rest) const;

  std::unordered_map<std::string, HostNode> removed_;
  std::unordered_set<std::string> merged_;                          // with work that the agent has not seen
  std::unordered_set<std::string> replaced_;                        // such work, by the agent's version
  std::unordered_set<std::string> marked_;                          // with conflict markers
  std::unordered_map<std::string, const AppliedChange::Own*> own_;  // of those that were not renamed
  std::unordered_map<std::string, HostNode> undone_;                // what the apply had written
  std::unordered_map<std::string, HostNode> written_;
  std::unordered_map<std::string, std::string> back_from_;  // renamed_back_, the other way round
  std::unordered_map<std::string, std::string> renamed_back_;
};

}  // namespace warren
