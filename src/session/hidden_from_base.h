// Which paths of the host are left out of the base and the home themselves, besides being covered.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sandbox/view/plan.h"

namespace warren {

// Whether another place of the plan is below the path.
bool has_places_inside(const Plan& plan, const std::string& path);

// Includes hidden paths outside the base: a mount may show them inside it.
Result<std::vector<std::string>> hidden_from_base(const Plan& plan);

}  // namespace warren
