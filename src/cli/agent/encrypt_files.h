// `encrypt`, `decrypt` and `rekey` with patterns.
#pragma once

#include "cli/syntax/args.h"

namespace warren::cli {

enum class FileChange { kEncrypt, kDecrypt, kRekey };

Positional pattern_argument();
// Why the agent's file may still have plain content, and what mends it: `again` says which command.
std::string not_compact_line(const Error& why, std::string_view again);
Result<Exit> change_files(Context& context, const Arguments& args, FileChange change);

// For commands that replace the whole agent file, and the patterns of encrypted files with it. The patterns before:
// none if there is no such agent, or it cannot be opened.
std::vector<std::string> list_patterns_of(Context& context, const std::string& id_or_path);
// Says which are not in force any more, and what mends it. kFailed if there are any.
Exit warn_of_lost_patterns(Context& context, const std::string& id_or_path, const std::vector<std::string>& before);

}  // namespace warren::cli
