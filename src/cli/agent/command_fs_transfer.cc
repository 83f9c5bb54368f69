// fs commands that copy between the host and the agent: put and get.
#include <fmt/format.h>

#include "agent/files/transfer.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/progress.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

void print_report(Context& context, const Arguments& args, std::string_view verb, const TransferReport& report) {
  for (const std::string& path : report.skipped) {
    context.err.line(fmt::format("warren: skipped {}: not a file, directory or symbolic link", quote(path)));
  }
  if (args.has("json")) {
    context.out.json({{"files", report.files},
                      {"directories", report.directories},
                      {"symlinks", report.symlinks},
                      {"bytes", report.bytes},
                      {"skipped", report.skipped.size()}});
  } else if (args.has("verbose")) {
    context.out.print("{}: {} files, {} directories, {} links, {}\n", verb, report.files, report.directories,
                      report.symlinks, context.out.size(report.bytes));
  }
}

Result<Exit> run_put(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  const std::string& host = args.get("HOST");
  TransferReport report;
  if (host == "-") {
    report.bytes = WARREN_TRY(replace_from_fd(agent->fs(), args.get("PATH"), context.input));
    report.files = 1;
  } else {
    TransferTotals totals;
    if (ProgressBar::is_watched(context)) totals = WARREN_TRY(measure_host_tree(host));
    ProgressBar bar(context, totals);
    report =
        WARREN_TRY(put_tree(agent->fs(), host, args.get("PATH"), [&](const TransferReport& done) { bar.show(done); }));
  }
  print_report(context, args, "put", report);
  return Exit::kOk;
}

Result<Exit> run_fs_get(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  const std::string& path = args.get("PATH");
  if (args.get("HOST") == "-") {
    WARREN_TRY(read_to(agent->fs(), path, [&](Bytes data) {
      context.out.raw(as_text(data));
      return context.out.status();
    }));
    return Exit::kOk;
  }
  TransferTotals totals;
  if (ProgressBar::is_watched(context)) totals = WARREN_TRY(measure_agent_tree(agent->fs(), path));
  ProgressBar bar(context, totals);
  GetOptions options{.overwrite = args.has("force") ? OverwriteHost::kYes : OverwriteHost::kNo,
                     .progress = [&](const TransferReport& done) { bar.show(done); }};
  TransferReport report = WARREN_TRY(get_tree(agent->fs(), path, args.get("HOST"), options));
  print_report(context, args, "got", report);
  return Exit::kOk;
}

}  // namespace

std::vector<Command> make_fs_transfers() {
  Option verbose{.name = "verbose", .letter = 'v', .help = "print how much was copied"};
  return {
      {.name = "put",
       .summary = "Copy a file or directory from the host into the agent",
       .details = "Keeps modes, times and symbolic links. When PATH is a directory, the copy goes into it. "
                  "Links on the host are not followed. Devices, sockets and pipes are skipped.",
       .positionals = {{.name = "HOST",
                        .help = "the file or directory to copy; `-`: standard input",
                        .suggest = Suggest::kHostFiles},
                       {.name = "PATH",
                        .help = "the destination in the agent",
                        .times = Times::kOptional,
                        .suggest = Suggest::kPaths,
                        .fallback = "/"}},
       .options = {verbose, json_option()},
       .subcommands = {},
       .handler = run_put},
      {.name = "get",
       .summary = "Copy a file or directory from the agent to the host",
       .details = "Keeps modes, times and symbolic links. When HOST is a directory, the copy goes into it. "
                  "Nothing is written outside HOST, whatever the agent contains: existing links there are not "
                  "followed, and set-user-id and set-group-id bits are dropped.",
       .positionals = {{.name = "PATH", .help = "the file or directory to copy", .suggest = Suggest::kPaths},
                       {.name = "HOST",
                        .help = "the destination; `-`: standard output",
                        .times = Times::kOptional,
                        .suggest = Suggest::kHostFiles,
                        .fallback = "."}},
       .options = {{.name = "force", .letter = 'f', .help = "overwrite existing files"}, verbose, json_option()},
       .subcommands = {},
       .handler = run_fs_get},
  };
}

}  // namespace warren::cli
