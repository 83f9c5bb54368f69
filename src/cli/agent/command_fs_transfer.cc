// fs: between the host and the agent: put and get.
#include <fmt/format.h>

#include "agent/transfer.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/progress.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

void tell_report(Context& context, const Arguments& args, std::string_view verb, const TransferReport& report) {
  for (const std::string& path : report.skipped) {
    context.err.line(fmt::format("warren: left out {}: neither file, directory nor link", quote(path)));
  }
  if (args.has("json")) {
    context.out.json({{"files", report.files},
                      {"directories", report.directories},
                      {"symlinks", report.symlinks},
                      {"bytes", report.bytes},
                      {"skipped", report.skipped.size()}});
  } else if (args.has("verbose")) {
    context.out.print("{}: {} files, {} directories, {} links, {}\n", verb, report.files, report.directories,
                      report.symlinks, format_size(report.bytes));
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
  tell_report(context, args, "put", report);
  return Exit::kOk;
}

Result<Exit> run_fs_get(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  const std::string& path = args.get("PATH");
  if (args.get("HOST") == "-") {
    WARREN_TRY(read_to(agent->fs(), path, [&](Bytes data) {
      context.out.write(as_text(data));
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
  tell_report(context, args, "got", report);
  return Exit::kOk;
}

}  // namespace

std::vector<Command> make_fs_transfers() {
  Option verbose{.name = "verbose", .letter = 'v', .help = "say how much it was"};
  return {
      {.name = "put",
       .summary = "Bring a file or a directory of the host into the agent",
       .details = "Keeps modes, times and symbolic links. When PATH is a directory, the copy goes into it.\n"
                  "Links on the host are not followed. Devices, sockets and pipes are left out.",
       .positionals = {{.name = "HOST",
                        .help = "what to bring in; `-`: standard input",
                        .suggest = Suggest::kHostFiles},
                       {.name = "PATH", .help = "where to in the agent", .times = Times::kOptional, .fallback = "/"}},
       .options = {verbose, json_option()},
       .subcommands = {},
       .handler = run_put},
      {.name = "get",
       .summary = "Take a file or a directory of the agent out to the host",
       .details = "Keeps modes, times and symbolic links. When HOST is a directory, the copy goes into it.\n"
                  "Nothing is written outside HOST, whatever the agent holds: links that stand there are not\n"
                  "followed, and set-user-id and set-group-id bits are dropped.",
       .positionals = {{.name = "PATH", .help = "what to take out"},
                       {.name = "HOST",
                        .help = "where to; `-`: standard output",
                        .times = Times::kOptional,
                        .suggest = Suggest::kHostFiles,
                        .fallback = "."}},
       .options = {{.name = "force", .letter = 'f', .help = "overwrite files that are there"}, verbose, json_option()},
       .subcommands = {},
       .handler = run_fs_get},
  };
}

}  // namespace warren::cli
