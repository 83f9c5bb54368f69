// What becomes of a session when nothing is left in it.
#pragma once

#include "cli/context.h"

namespace warren::cli {

Option keep_option();

// With --keep, also at the end of a run that goes on. For an apply or a discard that is done, while the agent is still
// open: an agent that is open is not deleted, so the run cannot end in between.
Status keep_session(const Arguments& args);

// After an apply or a discard, when the agent is closed: deletes the session if nothing is left in it
// (session/finished_session.h), unless --keep is given, and says so.
void tidy_session(Context& context, const Arguments& args);

// For `diff`, which deletes nothing: says how to, if nothing is left in the session.
void mention_finished(Context& context, const Arguments& args);

}  // namespace warren::cli
