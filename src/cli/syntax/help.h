// Help texts, generated from the command tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/syntax/args.h"

namespace warren::cli {

// Warren's own wording and layout, or the ones that AgentFS scripts expect.
enum class Dialect { kWarren, kAgentFs };

// "warren fs ID ls [options] [PATH]"; kAgentFs: "agentfs fs <ID_OR_PATH> ls [FS_PATH]".
std::string usage_line(std::span<const Command* const> path, Dialect dialect);
// The usage line with required arguments only.
std::string short_usage_line(std::span<const Command* const> path, Dialect dialect);

// "usage: warren fs ID ls ...", wrapped, with a line end.
std::string wrapped_usage(std::span<const Command* const> path, std::size_t columns);

// Warren's own is wrapped to so many columns.
inline constexpr std::size_t kHelpColumns = 80;
std::string help_text(std::span<const Command* const> path, Dialect dialect, std::size_t columns = kHelpColumns);

std::string spelled(const Option& option);       // "--limit N"
std::string spelled_clap(const Option& option);  // "--limit <N>"
std::string spelled(const Positional& positional, Dialect dialect);

}  // namespace warren::cli
