// The options that `warren timeline` and `agentfs timeline` share.
#pragma once

#include <vector>

#include "cli/syntax/args.h"
#include "store/record/tool_calls.h"

namespace warren::cli {

std::vector<Option> timeline_options();
CallFilter call_filter(const Arguments& args);

}  // namespace warren::cli
