// The session that a command without an ID means.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "cli/context.h"
#include "cli/syntax/args.h"

namespace warren::cli {

// The arguments with an ID: as given, or the only session whose base is the current directory or one above it. A
// session is "session:ID", which stays right if an apply writes a file with its name to the current directory.
// kNotFound, kConflict with the sessions that it could be.
Result<Arguments> with_session_here(const Arguments& args);

// The same for a command with PATHs. A word that is not an agent, but a path of that session or a pattern, is the first
// PATH. kConflict if there are several sessions that it could belong to.
Result<Arguments> with_session_and_paths(const Arguments& args, Clock& clock);

// Whether it is an SQLite database, and not encrypted.
bool is_plain_database(const std::string& path);

// A handler whose arguments have gone through with_session_here().
template <Handler kHandler>
Result<Exit> in_session_here(Context& context, const Arguments& given) {
  Arguments args = WARREN_TRY(with_session_here(given));
  return kHandler(context, args);
}

// The id of that session; nullopt if there is none, or several. `directory`: instead of the current one.
std::optional<std::string> find_session_here(const std::string& directory = ".");

// For a mistake like "fs ls /notes", with a verb where the ID should be: names the ID to use in the suggestion.
void suggest_session_here(UsageError& error, std::span<const std::string> words);

// "warren fs notes ls" for "warren notes ls", if an agent or session has that id.
void suggest_command_of_agent(UsageError& error, std::span<const std::string> words);

// "give an ID, newest first: a, b": the hint where several are possible.
std::string which_one_hint(std::span<const std::string> newest_first);

Positional optional_id_argument();
Positional changed_path_argument();  // PATH, after it

}  // namespace warren::cli
