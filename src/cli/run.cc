#include "cli/run.h"

#include <cstdint>

#include <fmt/format.h>

#include "cli/changes/session_here.h"
#include "cli/syntax/usage_error.h"
#include "cli/version.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

void print_error(Context& context, Dialect dialect, const Error& error) {
  if (dialect == Dialect::kAgentFs) {
    context.err.line(fmt::format("Error: {}", error.message()));
    return;
  }
  print_error(context, error);
}

std::string version_line(Dialect dialect) {
  if (dialect == Dialect::kWarren) return fmt::format("warren {}", kVersion);
  return fmt::format("agentfs v{} (warren {})", kAgentFsVersion, kVersion);
}

Exit explain_mistake(Context& context, Dialect dialect, const UsageError& error) {
  bool has_no_arguments = error.mistake == Mistake::kMissingCommand && error.path.size() == 1;
  std::size_t columns = columns_of_output(context, context.err);
  std::size_t message_columns = context.err.is_terminal() ? columns : SIZE_MAX;  // programs read messages line by line
  context.err.write(has_no_arguments ? help_text(error.path, dialect, columns)
                                     : explain(error, dialect, message_columns));
  return Exit::kUsage;
}

Result<Exit> dispatch(Context& context, Dialect dialect, const Parsed& parsed) {
  if (parsed.wants_help) {
    context.out.write(help_text(parsed.path, dialect, columns_of_output(context, context.out)));
    return Exit::kOk;
  }
  if (parsed.wants_version) {
    context.out.line(version_line(dialect));
    return Exit::kOk;
  }
  bool is_utc = parsed.arguments.has("utc") || dialect == Dialect::kAgentFs;
  bool has_bytes = parsed.arguments.find("bytes") == "";  // an option of `quota` has the same name, and a value
  for (Output* output : {&context.out, &context.err}) {
    output->show_as(is_utc ? Zone::kUtc : Zone::kLocal, has_bytes ? Sizes::kBytes : Sizes::kForPeople);
  }
  if (auto directory = parsed.arguments.find("directory")) WARREN_TRY(change_host_directory(*directory));
  return parsed.path.back()->handler(context, parsed.arguments);
}

}  // namespace

int run(Context& context, Dialect dialect, std::span<const std::string> words) {
  std::variant<Parsed, UsageError> outcome = parse(context.root, words, context.environment);
  Exit exit = Exit::kOk;
  if (auto* mistake = std::get_if<UsageError>(&outcome)) {
    if (dialect == Dialect::kWarren) {
      suggest_session_here(*mistake, words);
      suggest_command_of_agent(*mistake, words);
    }
    exit = explain_mistake(context, dialect, *mistake);
  } else {
    Result<Exit> done = dispatch(context, dialect, std::get<Parsed>(outcome));
    bool is_about_output = !context.out.status().ok();  // reported below, once
    if (done.ok()) {
      exit = *done;
    } else {
      exit = Exit::kFailed;
      if (!is_about_output) print_error(context, dialect, done.error());
    }
  }
  Status written = context.out.finish();
  if (!written.ok()) {
    exit = Exit::kFailed;
    if (!context.out.reader_is_gone()) print_error(context, dialect, written.error());
  }
  context.err.finish().ignore("there is nowhere left to report it");
  return static_cast<int>(exit);
}

}  // namespace warren::cli
