// The handler of `warren review`: it shares everything with `apply` but the way in which changes are chosen.
#pragma once

#include "cli/context.h"

namespace warren::cli {

Result<Exit> run_review(Context& context, const Arguments& given);

}  // namespace warren::cli
