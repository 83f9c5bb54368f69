// The patch of one change, as rows to draw: side by side or one below the other.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "changes/changes.h"
#include "changes/review/parts.h"

namespace warren::cli {

enum class PaneLayout { kUnified, kSideBySide };

struct PaneRow {
  enum class Kind { kText, kPart, kSame, kOld, kNew, kBoth };
  Kind kind = Kind::kText;
  std::string_view left;   // the old line, or the only text
  std::string_view right;  // the new line
  std::size_t part = 0;    // of everything but kText
};

enum class InConflict { kNo, kYes };

// Loaded when the change is first shown. The overlay is not used afterwards.
class ReviewPane {
 public:
  // What cannot be shown is a row that says why.
  static ReviewPane load(const AgentOverlay& overlay, const TreeChange& change, InConflict is_in_conflict);

  const std::vector<FilePart>* parts() const { return parts_ ? &parts_->list : nullptr; }
  // At most limits::kPaneRows; a last row says if there are more.
  const std::vector<PaneRow>& rows(PaneLayout layout);
  std::size_t row_of_part(PaneLayout layout, std::size_t part);

 private:
  struct Built {
    std::vector<PaneRow> rows;
    bool is_built = false;
  };
  void build_parts(PaneLayout layout, std::vector<PaneRow>& rows) const;
  void build_text(std::vector<PaneRow>& rows) const;

  std::unique_ptr<ChangeParts> parts_;  // rows point into these: their addresses stay
  std::unique_ptr<std::string> text_;
  Built unified_;
  Built side_by_side_;
};

namespace limits {
inline constexpr std::size_t kPaneRows = 200'000;
}  // namespace limits

}  // namespace warren::cli
