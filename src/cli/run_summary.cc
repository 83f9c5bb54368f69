#include "cli/run_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/text.h"
#include "cli/values.h"

namespace warren::cli {
void print_start(Context& context, const RunFacts& facts, std::string_view how) {
  context.err.line(
      fmt::format("{} session {} over {}", how, context.err.paint(Ink::kBold, facts.id), printable(facts.base)));
}

void print_walls(Context& context, const RunFacts& facts, int landlock_abi) {
  context.err.line(fmt::format("copy-on-write: {}", printable(facts.base)));
  for (const std::string& path : facts.allowed) context.err.line(fmt::format("writable: {}", printable(path)));
  context.err.line(fmt::format("namespaces: user, mount, pid, ipc{}", facts.has_own_network ? ", network" : ""));
  context.err.line("system-call filter: yes");
  context.err.line(landlock_abi >= 2 ? fmt::format("landlock: ABI {}", landlock_abi)
                                     : "landlock: no, this kernel does not have it");
}

void print_summary(Context& context, const SessionDir& session, const RunOptions& options) {
  const std::string& id = session.id();
  if (options.count_changes) {
    auto count = [&]() -> Result<ChangeCounts> {
      auto agent = WARREN_TRY(Agent::open({.id_or_path = session.file(), .mode = OpenMode::kReadOnly}, context.clock));
      return options.count_changes(*agent);
    };
    Result<ChangeCounts> counts = count();
    if (counts.ok()) {
      std::string renamed = counts->renamed == 0 ? "" : fmt::format(", {} renamed", counts->renamed);
      context.err.line(fmt::format("session {}: {} added, {} modified, {} deleted{} ({})",
                                   context.err.paint(Ink::kBold, id), counts->added, counts->modified, counts->deleted,
                                   renamed, format_size(counts->bytes)));
    } else {
      tell_failure(context, options.dialect, counts.error());
    }
  } else {
    context.err.line(fmt::format("session {}", context.err.paint(Ink::kBold, id)));
  }
  context.err.line(fmt::format("  warren diff {}            what changed", id));
  context.err.line(fmt::format("  warren apply {}           take it over", id));
  context.err.line(fmt::format("  warren discard {}         drop it", id));
  context.err.line(fmt::format("  warren run --session {}   go on", id));
}

void print_agentfs_banner(Context& context, const RunFacts& facts) {
  Output& err = context.err;
  err.print("Welcome to AgentFS!\n\nThe following directories are writable:\n\n  - {} (copy-on-write)\n",
            printable(facts.base));
  for (const std::string& path : facts.allowed) err.print("  - {}\n", printable(path));
  err.print("\nEverything else is read-only.\n\nTo join this session from another terminal:\n\n");
  err.print("  agentfs run --session {} <command>\n\n", facts.id);
}

void print_agentfs_joining(Context& context, const RunFacts& facts) {
  context.err.print("Joining existing session: {}\n\n", facts.id);
}

void print_agentfs_end(Context& context, const std::string& id) {
  context.err.print(
      "\nSession: {0}\n\nTo resume this session:\n  agentfs run --session {0}\n\n"
      "To see what changed:\n  agentfs diff {0}\n",
      id);
}

void tell_failure(Context& context, Dialect dialect, const Error& error) {
  if (dialect == Dialect::kAgentFs) {
    context.err.line(fmt::format("Error: {}", error.message()));
    return;
  }
  context.err.line(fmt::format("{} {}", context.err.paint(Ink::kRed, "warren:"), error.message()));
  if (!error.hint().empty()) context.err.line(fmt::format("hint: {}", error.hint()));
}

}  // namespace warren::cli
