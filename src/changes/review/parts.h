// The parts of a changed text file, which can be applied one by one.
//
// Of a file in conflict with the base these are the agent's parts of a merge (text/diff/merge3.h): what the base has
// changed elsewhere in the file stays in any case. Lines that both have changed are a part in conflict.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/apply/apply.h"
#include "changes/changes.h"
#include "text/diff/diff.h"
#include "text/diff/merge3.h"

namespace warren {

struct FilePart {
  Hunk hunk;                    // lines of the base, and of the agent
  bool is_in_conflict = false;  // the base has changed these lines, too

  bool operator==(const FilePart&) const = default;
};

enum class PartChoice {
  kLeft,    // as the base has it
  kTaken,   // as the agent has it
  kMarked,  // both between conflict markers; only a part in conflict
};

struct ChangeParts {
  std::string ancestor;  // what the agent started from
  std::string before;    // what the base has
  std::string after;     // what the agent has
  std::vector<MergePart> merge;
  std::vector<FilePart> list;  // those of `merge` that the agent has changed, at least one
  bool is_in_conflict = false;
};

struct LoadedParts {
  std::optional<ChangeParts> parts;
  std::string_view why_none;  // for people: "it is not text"
};
// Only a modified text file has parts; one in conflict only if it can be merged.
Result<LoadedParts> load_parts(const AgentOverlay& overlay, const TreeChange& change);

std::size_t count_in_conflict(const ChangeParts& parts);

// The base's content with what was chosen. One choice for each part.
std::string pick_parts(const ChangeParts& parts, const std::vector<PartChoice>& choices);

// One part as a patch of the base's file, with context, from "@@" on.
std::string show_part(const ChangeParts& parts, std::size_t part);

// Puts the content with the chosen parts into the options; what was left stays a change of the agent. Does nothing if
// that is the agent's content, all of it.
void take_parts(const TreeChange& change, const ChangeParts& parts, const std::vector<PartChoice>& choices,
                ApplyOptions& options);

}  // namespace warren
