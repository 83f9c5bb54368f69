#include <fmt/format.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/context/context_commands.h"
#include "cli/context/tool_call.h"
#include "cli/show/text.h"
#include "drives/ingest.h"
#include "drives/known_drives.h"

namespace warren::cli {
namespace {

OnConflict conflict_option(const Arguments& args) {
  std::string given = args.find("on-conflict").value_or("");
  if (given == "error") return OnConflict::kError;
  if (given == "overwrite") return OnConflict::kOverwrite;
  return given == "skip" ? OnConflict::kSkip : OnConflict::kRefresh;
}

IngestOptions ingest_options(const Arguments& args) {
  return {.drive = args.find("drive").value_or(""),
          .on_conflict = conflict_option(args),
          .includes = args.all("include"),
          .excludes = args.all("exclude"),
          .fetch = {.may_reach_private = args.has("allow-private")}};
}

// One line that is drawn again and again, on a terminal only.
class AddingLine {
 public:
  explicit AddingLine(Context& context) : context_(context) {}
  ~AddingLine() {
    if (is_drawn_) context_.err.raw("\r\x1b[K");
  }
  AddingLine(const AddingLine&) = delete;
  AddingLine& operator=(const AddingLine&) = delete;

  void draw(const IngestReport& report) {
    if (!context_.err.is_terminal()) return;
    is_drawn_ = true;
    context_.err.raw(fmt::format("\r\x1b[K{} items, {} unchanged", report.added + report.replaced, report.unchanged));
  }

 private:
  Context& context_;
  bool is_drawn_ = false;
};

Exit show_report(Context& context, const Arguments& args, const IngestReport& report) {
  if (args.has("json")) {
    Json failures = Json::array();
    for (const auto& failure : report.failures) {
      Json one;
      set_bytes(one, "what", failure.what);
      one["message"] = failure.message;
      failures.push_back(std::move(one));
    }
    context.out.json({{"added", report.added},
                      {"replaced", report.replaced},
                      {"unchanged", report.unchanged},
                      {"skipped", report.skipped},
                      {"ignored", report.ignored},
                      {"size_bytes", report.bytes},
                      {"failures", std::move(failures)}});
  } else {
    context.out.print("{} added, {} replaced, {} unchanged", report.added, report.replaced, report.unchanged);
    if (report.skipped > 0) context.out.print(", {} skipped", report.skipped);
    if (report.ignored > 0) context.out.print(", {} ignored", report.ignored);
    context.out.print("\n");
    for (const auto& failure : report.failures) {
      context.err.print("warren: {}: {}\n", context.err.name(failure.what), failure.message);
    }
  }
  return report.failures.empty() ? Exit::kOk : Exit::kFailed;
}

Result<Exit> run_context_add(Context& context, const Arguments& args) {
  if (std::optional<std::string> drive = args.find("drive")) WARREN_TRY(check_drive_name(*drive).within("--drive"));
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  IngestReport report;
  {
    AddingLine line(context);
    Ingest ingest(*view.agent, *view.fs, context.clock, ingest_options(args),
                  [&](const IngestReport& done) { line.draw(done); });
    for (const std::string& what : args.all("PATH")) {
      if (looks_like_web_address(what)) WARREN_TRY(ingest.add_url(what));
      else WARREN_TRY(ingest.add_path(what).within([&] { return "add " + quote(what); }));
    }
    WARREN_TRY(ingest.finish());
    report = ingest.report();
  }
  WARREN_TRY(view.fs->check_recorded());
  return show_report(context, args, report);
}

// Every item that came from the web, or those that were named.
Result<Exit> run_context_refresh(Context& context, const Arguments& args) {
  const std::vector<std::string>& named = args.all("REF");
  if (named.empty() != args.has("all")) return refuse(context, "give the items to refresh, or --all");
  std::vector<Ref> refs;
  for (const std::string& one : named) {
    Ref ref = looks_like_web_address(one) ? WARREN_TRY(find_web_item(one))
    .ref : WARREN_TRY(parse_ref(one));
    refs.push_back(std::move(ref));
  }
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  IngestReport report;
  {
    AddingLine line(context);
    Ingest ingest(*view.agent, *view.fs, context.clock, ingest_options(args),
                  [&](const IngestReport& done) { line.draw(done); });
    for (const Ref& ref : refs) WARREN_TRY(ingest.refresh(ref));
    if (args.has("all")) WARREN_TRY(ingest.refresh_all());
    WARREN_TRY(ingest.finish());
    report = ingest.report();
  }
  WARREN_TRY(view.fs->check_recorded());
  return show_report(context, args, report);
}

}  // namespace

std::vector<Command> make_context_sources() {
  std::vector<Option> common{
      {.name = "allow-private", .help = "also fetch from private, loopback and link-local addresses"}};
  for (Option& one : tool_call_options()) common.push_back(std::move(one));
  common.push_back(
      {.name = "on-conflict",
       .value = "WHAT",
       .help = "for items that have another content [default: replace them if they came from there and were not "
               "changed here]",
       .choices = {"error", "overwrite", "skip"}});
  std::vector<Option> refreshing{{.name = "all", .help = "every item that came from the web"}};
  refreshing.insert(refreshing.end(), common.begin(), common.end());
  std::vector<Option> adding{
      {.name = "drive", .value = "DRIVE", .help = "the drive for files [default: disk, by their absolute paths]"},
      {.name = "include",
       .value = "GLOB",
       .help = "only files that match, as in .gitignore; repeatable",
       .is_list = true},
      {.name = "exclude", .value = "GLOB", .help = "not what matches; repeatable", .is_list = true}};
  adding.insert(adding.end(), common.begin(), common.end());
  return {
      {.name = "add",
       .summary = "Add files, folders and web addresses as items",
       .details = "Folders are added with everything in them, except what .gitignore and .warrenignore leave out, "
                  ".git, and links. "
                  "Text is stored as UTF-8; anything else keeps its bytes. Adding again changes only what has changed.",
       .positionals = {{.name = "PATH",
                        .help = "a file, a folder, or an http or https address",
                        .times = Times::kOnceOrMore,
                        .suggest = Suggest::kHostFiles}},
       .options = std::move(adding),
       .subcommands = {},
       .handler = run_context_add},
      {.name = "refresh",
       .summary = "Fetch items from the web again",
       .details = "An item that was changed here since it was fetched is not replaced unless --on-conflict overwrite "
                  "is given. "
                  "To refresh files of the machine, add them again.",
       .positionals = {{.name = "REF", .help = "an item that came from the web", .times = Times::kAny}},
       .options = std::move(refreshing),
       .subcommands = {},
       .handler = run_context_refresh}};
}

}  // namespace warren::cli
