// The session that a command without an ID means.
#pragma once

#include "base/result.h"
#include "cli/syntax/args.h"

namespace warren::cli {

// The arguments with an ID: as given, or the only session whose base is the current directory or one above it. A
// session is "session:ID", which stays right if an apply writes a file with its name to the current directory.
// kNotFound, kConflict with the sessions that it could be.
Result<Arguments> with_session_here(const Arguments& args);

Positional optional_id_argument();
Positional changed_path_argument();  // PATH, after it

}  // namespace warren::cli
