// The PATH arguments of diff, apply and discard.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "changes/changes.h"

namespace warren {

// A path selects itself and everything below it, a pattern (text/glob.h) what it matches; an empty list selects all.
// What one of `excluded` matches is not selected: there a pattern without '/' counts in every directory.
ChangeFilter filter_of(const std::vector<std::string>& patterns, const std::vector<std::string>& excluded = {});

// Relative patterns are meant from the directory `here`, if that is in the base; absolute ones from the root of the
// agent's tree, or as paths of the host. Both directories canonical. kInvalid if one leads out of the base.
Result<std::vector<std::string>> resolve_patterns(const std::vector<std::string>& patterns, const std::string& base,
                                                  const std::string& here);

// A pattern that is exactly the path of a change means that path and what is below it, such as a file named "[a]".
std::vector<std::string> with_exact_names(std::vector<std::string> patterns, const std::vector<TreeChange>& changes);

// The patterns as paths: a change at one of them was named by the user, not found by a pattern.
std::unordered_set<std::string> names_in(const std::vector<std::string>& patterns);

// kNotFound if a path matches no change and is neither in the agent's tree nor in the base: it is misspelled. A file
// without changes is no mistake. kNotFound if a pattern other than `**` matches no change.
Status check_paths(const AgentOverlay& overlay, const std::vector<std::string>& patterns,
                   const std::vector<TreeChange>& changes);
// kNotFound if a pattern matches none of the changes.
Status check_patterns(const std::vector<std::string>& patterns, const std::vector<TreeChange>& changes);

}  // namespace warren
