// What a person takes of an agent's changes, and leaves: a tree of rows with decisions. No terminal, no files.
//
// Nothing is taken at first. A file with parts (changes/review/parts.h) can be taken in part, once its parts are known.
// Changes in conflict with the base are taken one by one only, never together with others.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "changes/apply/apply.h"
#include "changes/changes.h"
#include "changes/conflicts.h"
#include "changes/selection.h"
#include "text/diff/diff.h"

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
    std::size_t conflicts = 0;  // taken ones that replace newer work in the base
  };

  // A directory with more rows than limits::kReviewOpenRows below it is folded at first.
  Review(const std::vector<TreeChange>& all, const ChangeFilter& filter, const std::vector<ApplyConflict>& conflicts);

  const std::vector<Row>& rows() const { return rows_; }  // each directory before what is below it
  std::vector<std::size_t> visible() const;               // those that are not in a folded directory
  void fold(std::size_t row);                             // or unfold; does nothing for a file
  const TreeChange* change_of(std::size_t row) const;
  const std::string* conflict_of(std::size_t change) const;  // why; null without a conflict

  Taken taken(std::size_t row) const;
  // Takes a row with everything below it, or leaves it if all of that is taken. False if only conflicts are below it.
  bool toggle(std::size_t row);
  void take_all();
  void leave_all();

  // The merged version of a change in conflict is taken instead of the agent's.
  bool is_merged(std::size_t change) const { return decisions_[change].is_merged; }
  void take_merged(std::size_t change);

  // Decisions about parts stay if the parts are the same as before; otherwise the file is left as a whole.
  void set_parts(std::size_t change, const std::vector<Hunk>& hunks);
  bool is_part_taken(std::size_t change, std::size_t part) const;
  void toggle_part(std::size_t change, std::size_t part);

  Counts count() const;

  // Puts the decisions into `chosen` and `options`. kConflict if a file whose parts were chosen has changed since.
  Status choose(const AgentOverlay& overlay, Selection& chosen, ApplyOptions& options) const;

 private:
  struct Decision {
    bool is_listed = false;
    bool is_taken = false;  // wholly, if there are no parts
    bool is_merged = false;
    std::vector<Hunk> hunks;
    std::vector<bool> parts;  // empty until they are known
    Taken state() const;
    void set(bool taken);
  };
  struct Node;
  void flatten(const Node& node, const std::string& name, std::size_t depth);
  bool can_take_together(std::size_t change) const { return conflict_of(change) == nullptr; }
  template <class Call>
  void each_below(std::size_t row, const Call& call) const;

  const std::vector<TreeChange>& all_;
  std::unordered_map<std::string_view, std::string> conflicts_;  // by the path of a change
  std::vector<Decision> decisions_;                              // one for each change
  std::vector<Row> rows_;
};

// kConflict if the agent has changed the node again since the change was listed: nobody has looked at that.
Status check_as_listed(const AgentOverlay& overlay, const TreeChange& change);

namespace limits {
inline constexpr std::size_t kReviewOpenRows = 50;
}  // namespace limits

}  // namespace warren
