// The public API: an agent's files, key-value state, tool-call trail and namespace, in one file.
//
//   #include <warren/agent.h>
//
//   warren::Status write_note() {
//     auto agent = WARREN_TRY(warren::Agent::open({.id = "my-agent"}));
//     WARREN_TRY(agent->files().write_file("/notes/today.md", "hello"));
//     return agent->kv().set("mood", "\"curious\"");
//   }
//
// The types are declared in warren::v1, which is also their name in the compiled library, so that a later version can
// coexist with this one. This header makes them available as warren::Agent and so on.
#pragma once

#include <warren/v1/agent.h>

namespace warren {
using namespace v1;
}  // namespace warren
