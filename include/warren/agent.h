// The public API: an agent's files, key-value state and tool-call trail, in one file.
//
//   #include <warren/agent.h>
//
//   warren::Status keep_a_note() {
//     auto agent = WARREN_TRY(warren::Agent::open({.id = "my-agent"}));
//     WARREN_TRY(agent->files().write_file("/notes/today.md", "hello"));
//     return agent->kv().set("mood", "\"curious\"");
//   }
//
// The types are declared in warren::v1, which is also their name in the compiled library: a later
// version can stand beside this one. This header makes them visible as warren::Agent and so on.
#pragma once

#include <warren/v1/agent.h>

namespace warren {
using namespace v1;
}  // namespace warren
