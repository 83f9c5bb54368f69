// A checkpoint as JSON and in a line.
#pragma once

#include <string>

#include "base/json.h"
#include "cli/show/output.h"
#include "store/history/history.h"

namespace warren::cli {

Json checkpoint_json(const Checkpoint& checkpoint);
std::string checkpoint_label(const Checkpoint& checkpoint);  // "3 (before-the-rewrite)"

}  // namespace warren::cli
