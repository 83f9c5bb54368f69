// What a person takes of an agent's changes, and leaves: a tree of rows with decisions. No terminal, no files.
//
// Nothing is taken at first, and never what no option of apply writes. A file with parts (changes/review/parts.h) can
// be taken in part, once its parts are known. Changes in conflict with the base are taken one by one only, never
// together with others, and neither are changes that need one of them which is left (changes/needs.h). Whatever a taken
// change needs counts as taken; leaving it leaves that change.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "changes/apply/apply.h"
#include "changes/changes.h"
#include "changes/conflicts.h"
#include "changes/needs.h"
#include "changes/review/parts.h"
#include "changes/selection.h"

namespace warren {

enum class Taken { kNo, kPart, kYes };

// The changes must outlive it. For one thread.
class Review {
 public:
  struct Row {
    std::string name;  // the last component; "/" for the top
    std::size_t depth = 0;
    std::optional<std::size_t> change;  // nullopt for a directory that only contains changes
    std::size_t below = 0;              // the rows after this one that are below it
    bool is_folded = false;
  };
  struct Counts {
    std::size_t all = 0;
    std::size_t taken = 0;      // whole ones
    std::size_t partly = 0;     // files of which only parts are taken
    std::size_t conflicts = 0;  // those that replace newer work in the base
    std::size_t marked = 0;     // those with conflict markers
  };

  // Lists also what the offered changes need. A directory with more rows than limits::kReviewOpenRows below it is
  // folded at first.
  Review(const std::vector<TreeChange>& all, Selection offered, const std::vector<ApplyConflict>& conflicts);

  const std::vector<Row>& rows() const { return rows_; }  // each directory before what is below it
  std::vector<std::size_t> visible() const;               // those that are not in a folded directory
  void fold(std::size_t row);                             // or unfold; does nothing for a file
  void unfold_to(std::size_t row);                        // the directories above it
  const TreeChange* change_of(std::size_t row) const;
  const std::string* conflict_of(std::size_t change) const;  // why; null without a conflict
  bool can_be_taken(std::size_t change) const;  // false: no option of apply writes it, and nothing takes it

  Taken taken(std::size_t row) const;
  // Takes a row with everything below it, or leaves it if all of that is taken. False if it cannot be taken, or only
  // conflicts, and what needs them, are below it. A file in conflict is taken as it was when it was left; at first all
  // of its parts, as the agent has them. A directory that is in conflict itself is taken once everything below it is.
  bool toggle(std::size_t row);
  void take_all();
  void leave_all();

  // Takes a change in conflict, without parts, as it is merged with the base; or, if it is, as the agent has it.
  void toggle_merged(std::size_t change);
  bool is_merged(std::size_t change) const;  // what is taken of it replaces nothing in the base that is newer
  bool has_markers(std::size_t change) const;

  // Decisions about parts stay if the parts are the same as before; otherwise the file is left as a whole.
  void set_parts(std::size_t change, const std::vector<FilePart>& parts);
  bool has_parts(std::size_t change) const { return !decisions_[change].parts.empty(); }
  bool has_part_in_conflict(std::size_t change) const;
  PartChoice choice_of(std::size_t change, std::size_t part) const;
  void toggle_part(std::size_t change, std::size_t part);
  // Both versions between markers, or the base's alone. False if the base has not changed these lines.
  bool toggle_markers(std::size_t change, std::size_t part);
  // All parts as the agent has them, but those in conflict as given.
  void take_parts_with(std::size_t change, PartChoice in_conflict);

  Counts count() const;

  // A taken change, and the conflict that is left without which it cannot be written.
  struct Missing {
    const TreeChange& change;
    const TreeChange& conflict;
    bool can_be_taken = true;  // the conflict
  };
  std::optional<Missing> find_missing() const;

  // Puts the decisions into `chosen` and `options`. kConflict if a file whose parts were chosen has changed since.
  Status choose(const AgentOverlay& overlay, Selection& chosen, ApplyOptions& options) const;

  // What counts as taken, as it was listed: for the next review, if nothing could be written.
  struct Earlier;
  std::vector<Earlier> list_taken() const;
  // Takes what was taken in an earlier review of the same agent, except for changes that have changed since, in the
  // base or in the agent, and what needs these. Returns the row of the first of them.
  std::optional<std::size_t> take_as_before(const std::vector<Earlier>& earlier);

 private:
  struct Decision {
    bool is_listed = false;
    bool is_taken = false;            // wholly, if there are no parts
    bool is_merged = false;           // if it is taken, and there are no parts
    std::vector<FilePart> parts;      // empty until they are known
    std::vector<PartChoice> choices;  // one for each
    std::vector<PartChoice> last;     // those of before it was left
    Taken state() const;
    void set(bool taken);
    void leave();
    void take_again();
    bool has(PartChoice choice) const;  // of a part in conflict
  };
  struct Node;
  bool is_as_before(std::size_t change, const Earlier& earlier) const;
  void flatten(const Node& node, const std::string& name, std::size_t depth);
  void toggle_one(std::size_t change);
  void leave(const std::vector<std::size_t>& changes);
  void follow(std::size_t change);
  void find_implied();
  void take_over(std::size_t change);
  Taken state_of(std::size_t change) const;
  std::vector<std::size_t> list_left_conflicts() const;
  std::vector<bool> list_alone() const;
  template <class Call>
  void each_below(std::size_t row, const Call& call) const;

  const std::vector<TreeChange>& all_;
  std::unordered_map<std::string_view, std::string> conflicts_;  // by the path of a change
  std::unordered_set<std::string_view> never_taken_;             // of these, the paths of what cannot be taken
  std::vector<Decision> decisions_;                              // one for each change
  Needs needs_;
  std::vector<bool> implied_;  // not taken themselves, but needed by what is taken, and not in conflict
  std::vector<Row> rows_;
};

struct Review::Earlier {
  TreeChange change;
  std::string conflict;  // why; "" without one
  Decision decision;
};

// kConflict if the agent has changed a node again since its change was listed, or taken a deletion back: nobody has
// looked at that. For the completed selection, just before it is written: what is only needed is written, too. Lists
// the agent's changes again if there are deletions.
Status check_as_listed(const AgentOverlay& overlay, const std::vector<TreeChange>& chosen);

namespace limits {
inline constexpr std::size_t kReviewOpenRows = 50;
}  // namespace limits

}  // namespace warren
