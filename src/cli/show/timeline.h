// What `warren timeline` and `agentfs timeline` have in common.
#pragma once

#include <vector>

#include "cli/syntax/args.h"
#include "store/tool_calls.h"

namespace warren::cli {

std::vector<Option> timeline_options();
CallFilter call_filter(const Arguments& args);

}  // namespace warren::cli
