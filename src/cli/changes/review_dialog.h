// The full-screen review of an agent's changes: `warren review`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "changes/apply/apply.h"
#include "changes/review/review.h"
#include "changes/selection.h"
#include "cli/context.h"

namespace warren::cli {

// Asks what an apply of the chosen changes must ask, without the screen. False if the user does not agree.
using ReviewConsent = std::function<Result<bool>(Selection chosen)>;

// What one review leaves for the next, if nothing could be written.
struct ReviewState {
  std::vector<Review::Earlier> taken;
  std::optional<Error> refusal;  // why; nullopt in the first review
};

// Lets the user take changes and parts of them on the terminal, and fills in `chosen` and `options` like choose_changes
// (cli/changes/apply_dialog.h). Begins with what `state` has, and puts what was taken there. If the user answers a
// question at the end with no, the screen returns, with everything that was taken. False if the user quits: then
// nothing is to be written, and the refusal that the review began with is printed in full. The terminal is restored in
// any case, also after a signal.
Result<bool> review_changes(Context& context, const std::string& title, const AgentOverlay& overlay,
                            const std::vector<TreeChange>& all, const Selection& offered, const ReviewConsent& agrees,
                            ReviewState& state, Selection& chosen, ApplyOptions& options);

}  // namespace warren::cli
