// apply --interactive: a question for each change.
#pragma once

#include <vector>

#include "changes/apply.h"
#include "changes/changes.h"
#include "changes/selection.h"
#include "cli/context.h"

namespace warren::cli {

// Takes into `chosen` what the person wants, and into options.contents what they want merged. False: they
// want to quit, and nothing is to be done.
Result<bool> choose_changes(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                            const ChangeFilter& filter, Selection& chosen, ApplyOptions& options);

}  // namespace warren::cli
