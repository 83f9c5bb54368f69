// `encrypt`, `decrypt` and `rekey` with patterns.
#pragma once

#include "cli/syntax/args.h"

namespace warren::cli {

enum class FileChange { kEncrypt, kDecrypt, kRekey };

Positional pattern_argument();
Result<Exit> change_files(Context& context, const Arguments& args, FileChange change);

}  // namespace warren::cli
