// What becomes of a session when nothing is left in it.
#pragma once

#include "cli/context.h"

namespace warren::cli {

Option keep_option();

// After an apply or a discard, when the agent is closed: deletes the session if nothing is left in it
// (session/finished_session.h), unless --keep is given, and says so.
void tidy_session(Context& context, const Arguments& args);

// For `diff`, which deletes nothing: says how to, if nothing is left in the session.
void mention_finished(Context& context, const Arguments& args);

}  // namespace warren::cli
