// The dialog of apply --interactive: one question for each change.
#pragma once

#include <vector>

#include "changes/apply/apply.h"
#include "changes/changes.h"
#include "changes/selection.h"
#include "cli/context.h"

namespace warren::cli {

// Asks about the changes of `offered`, and about those that they need if there is a conflict or a remark. Adds what the
// user accepts to `chosen`, and merged contents to options.contents. Returns false if the user quits: then nothing is
// to be written.
Result<bool> choose_changes(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                            const Selection& offered, Selection& chosen, ApplyOptions& options);

}  // namespace warren::cli
