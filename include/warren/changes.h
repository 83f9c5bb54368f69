// The public API for sessions of `warren run`, and for what an agent has changed in its base: list, apply, discard.
//
//   #include <warren/changes.h>
//
//   warren::Status take_over() {
//     auto changes = WARREN_TRY(warren::Changes::open({.id = "session:fix"}));
//     warren::ApplyResult done = WARREN_TRY(changes->apply({.paths = {"src"}}));
//     for (const warren::ChangeConflict& one : done.conflicts) std::puts(one.path.c_str());
//     return warren::Ok{};
//   }
#pragma once

#include <warren/v1/changes.h>

namespace warren {
using namespace v1;
}  // namespace warren
