// Names that completions offer from outside the tables: agents, sessions, what is in an agent, the relay's.
#pragma once

#include <string_view>

#include "cli/context.h"
#include "cli/syntax/completion.h"

namespace warren::cli {

// Adds what completion.suggest asks for and begins with `current`, the word at the cursor. Never fails and changes
// nothing: where something cannot be opened, nothing is offered.
//
// A word is offered unless it has a character that could break a line or control a terminal (base/printable.h), or
// would be read as an option. Nothing is listed of an agent that is encrypted, since that would ask for its key, or
// whose reads are recorded, since this one would not be.
void add_suggestions(Context& context, Completion& completion, std::string_view current);

}  // namespace warren::cli
