#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context/context_commands.h"
#include "cli/context/context_watch.h"
#include "cli/context/open_index.h"
#include "cli/context/tool_call.h"
#include "cli/show/progress.h"
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

// On a terminal: how far it is.
IngestTotals measure(Ingest& ingest, const Arguments& args) {
  IngestTotals totals;
  for (const std::string& what : args.all("PATH")) {
    if (looks_like_web_address(what)) continue;
    Result<IngestTotals> one = ingest.measure_path(what);
    if (one.ok()) totals = {.files = totals.files + one->files, .bytes = totals.bytes + one->bytes};
  }
  return totals;
}

// A bar if the totals are known, otherwise what was done so far; on a terminal only.
class AddingBar {
 public:
  explicit AddingBar(Context& context) : context_(context) {}

  void set_totals(const IngestTotals& totals) {
    bar_.emplace(context_, TransferTotals{.files = totals.files, .bytes = totals.bytes});
  }
  void show(const IngestReport& report) {
    TransferReport done;
    done.files = report.looked_at.files;
    done.bytes = report.looked_at.bytes;
    if (bar_) bar_->show(done);
  }
  void end() { bar_.reset(); }

 private:
  Context& context_;
  std::optional<ProgressBar> bar_;
};

constexpr std::string_view kKeptAsBytes = "looks like text in an encoding that is not known; its bytes are kept";

Exit show_report(Context& context, const Arguments& args, const IngestReport& report) {
  if (args.has("json")) {
    Json failures = Json::array();
    for (const auto& failure : report.failures) {
      Json one;
      set_bytes(one, "what", failure.what);
      one["message"] = failure.message;
      if (!failure.hint.empty()) one["hint"] = failure.hint;
      failures.push_back(std::move(one));
    }
    Json json{{"added", report.added},      {"replaced", report.replaced},    {"unchanged", report.unchanged},
              {"deleted", report.deleted},  {"skipped", report.skipped},      {"ignored", report.ignored},
              {"size_bytes", report.bytes}, {"failures", std::move(failures)}};
    json["warnings"] = Json::array();
    for (const std::string& source : report.kept_as_bytes) {
      Json one;
      set_bytes(one, "what", source);
      one["message"] = kKeptAsBytes;
      json["warnings"].push_back(std::move(one));
    }
    if (args.has("watch")) context.out.json_line(json);  // the first of many
    else context.out.json(json);
  } else {
    context.out.print("{} added, {} replaced, {} unchanged", report.added, report.replaced, report.unchanged);
    if (report.deleted > 0) context.out.print(", {} deleted", report.deleted);
    if (report.skipped > 0) context.out.print(", {} skipped", report.skipped);
    if (report.ignored > 0) context.out.print(", {} ignored", report.ignored);
    context.out.print("\n");
    for (const auto& failure : report.failures) {
      context.err.print("warren: {}: {}\n", context.err.name(failure.what), context.err.name(failure.message));
      if (!failure.hint.empty()) context.err.line(fmt::format("hint: {}", failure.hint));
    }
    for (const std::string& source : report.kept_as_bytes) {
      context.err.print("warren: {}: {}\n", context.err.name(source), kKeptAsBytes);
    }
  }
  return report.failures.empty() ? Exit::kOk : Exit::kFailed;
}

// The session's files as its agent sees them, whatever it changes meanwhile.
Result<std::unique_ptr<Agent>> open_session(Context& context, const std::string& name) {
  std::optional<std::string> file = WARREN_TRY(find_session_file(name));
  if (!file) {
    return Error(Code::kNotFound, fmt::format("there is no session {}", quote(name)), "`warren sessions` lists them");
  }
  AgentOptions options{.id_or_path = *file, .mode = OpenMode::kReadOnly};
  options.caller = {.agent = {}, .space = Space::kKernel, .door = "tool", .session = {}, .trace = trace_of(context)};
  options.may_record = true;
  std::unique_ptr<Agent> opened = WARREN_TRY(Agent::open(options, context.clock));
  std::optional<AgentOverlay> overlay = opened->overlay();
  if (!overlay || overlay->hidden.empty()) return opened;
  for (const std::string& path : overlay->hidden) options.hidden.push_back(overlay->base_path + path);
  return Agent::open(options, context.clock);
}

Status add_session(Context& context, Ingest& ingest, const std::string& name) {
  std::unique_ptr<Agent> session = WARREN_TRY(open_session(context, name));
  WARREN_TRY(ingest.add_session(session->fs(), session->id()).within([&] { return "add session " + quote(name); }));
  return session->check_recorded();
}

// Of several things, one that fails is named in the report and does not stop the rest. An error of writing would be the
// same for all of them.
Status note_failure(Ingest& ingest, const std::string& what, Status done) {
  if (done.ok() || ingest.has_stopped()) return done;
  ingest.fail(what, done.error());
  return Ok{};
}

Status add_one(Ingest& ingest, const std::string& what) {
  if (looks_like_web_address(what)) return ingest.add_url(what);
  return ingest.add_path(what);
}

Status add_everything(Context& context, const Arguments& args, Ingest& ingest) {
  const std::vector<std::string>& paths = args.all("PATH");
  const std::vector<std::string>& sessions = args.all("session");
  bool is_single = paths.size() + sessions.size() == 1;
  for (const std::string& what : paths) {
    Status done = add_one(ingest, what);
    WARREN_TRY(is_single ? std::move(done).within([&] { return "add " + quote(what); })
                         : note_failure(ingest, what, std::move(done)));
  }
  for (const std::string& name : sessions) {
    Status done = add_session(context, ingest, name);
    WARREN_TRY(is_single ? std::move(done) : note_failure(ingest, name, std::move(done)));
  }
  return ingest.finish();
}

std::optional<std::string> problem_with_adding(const Arguments& args) {
  const std::vector<std::string>& paths = args.all("PATH");
  if (paths.empty() && !args.has("session")) return "give something to add: a file, a folder, an address, or --session";
  bool has_address = std::ranges::any_of(paths, looks_like_web_address);
  if (args.has("watch") && (has_address || args.has("session"))) {
    return "--watch is for files and folders, not for addresses and sessions";
  }
  return std::nullopt;
}

// Keeps the search index up to date. Returns whether there is more to embed; without an embedder, or if it does not
// answer, searches say so.
bool update_index(ToolIndex& index) {
  constexpr std::chrono::milliseconds kSlice{200};
  Result<ContextIndex*> open = index.open();
  if (!open.ok() || !(*open)->catch_up().ok()) return false;
  Result<std::size_t> embedded = (*open)->embed_some(kSlice);
  return embedded.ok() && *embedded > 0;
}

// Adds, and then follows what changes.
Result<Exit> watch_sources(Context& context, const Arguments& args) {
  std::unique_ptr<ContextWatch> watch = WARREN_TRY(ContextWatch::open());
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  IngestOptions options = ingest_options(args);
  watch->watch_with(options);
  bool shows_changes = false;
  options.on_change = [&](ItemChange change, const Ref& ref) {
    if (shows_changes) show_change(context, args, change, ref);
  };
  AddingBar bar(context);
  Ingest ingest(*view.agent, *view.fs, context.clock, options, [&](const IngestReport& done) { bar.show(done); });
  for (const std::string& what : args.all("PATH")) {
    WARREN_TRY(watch->add(ingest, what).within([&] { return "watch " + quote(what); }));
  }
  if (ProgressBar::is_watched(context)) bar.set_totals(measure(ingest, args));
  Status done = watch->catch_up(context, ingest);
  bar.end();
  if (!done.ok() && !watch->is_interrupted()) return std::move(done).take_error();
  WARREN_TRY(view.fs->check_recorded());
  show_report(context, args, ingest.take_report());
  if (watch->is_interrupted()) return Exit::kOk;
  shows_changes = true;
  ToolIndex index(context, *view.agent);
  return watch->run(context, args, view, ingest, [&] { return update_index(index); });
}

Result<Exit> run_context_add(Context& context, const Arguments& args) {
  if (std::optional<std::string> drive = args.find("drive")) WARREN_TRY(check_drive_name(*drive).within("--drive"));
  if (std::optional<std::string> problem = problem_with_adding(args)) return refuse(context, *problem);
  if (args.has("watch")) return watch_sources(context, args);
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  IngestReport report;
  {
    AddingBar bar(context);
    Ingest ingest(*view.agent, *view.fs, context.clock, ingest_options(args),
                  [&](const IngestReport& done) { bar.show(done); });
    if (ProgressBar::is_watched(context) && !args.has("session")) bar.set_totals(measure(ingest, args));
    WARREN_TRY(add_everything(context, args, ingest));
    report = ingest.report();
  }
  WARREN_TRY(view.fs->check_recorded());
  return show_report(context, args, report);
}

// A page is where it is now: it may have become a folder's, or was moved.
Result<Ref> find_named_item(Context& context, Agent& agent, FileSystem& view, const std::string& given) {
  if (!looks_like_web_address(given)) return parse_ref(given);
  WebItem item = WARREN_TRY(find_web_item(given));
  Items items(agent, view, context.clock);
  auto unit = WARREN_TRY(view.begin(UnitAccess::kRead));
  return items.find_page(item.ref, item.source);
}

// Every item that came from the web, or those that were named, or those of sessions.
Result<Exit> run_context_refresh(Context& context, const Arguments& args) {
  const std::vector<std::string>& named = args.all("REF");
  int ways = static_cast<int>(!named.empty()) + static_cast<int>(args.has("all"));
  if (ways > 1 || (ways == 0 && !args.has("session"))) {
    return refuse(context, "give the items to refresh, or --all, or --session NAME");
  }
  OpenView view = WARREN_TRY(open_for_tools(context, args));
  std::vector<Ref> refs;
  for (const std::string& one : named) {
    Ref ref = WARREN_TRY(find_named_item(context, *view.agent, *view.fs, one));
    refs.push_back(std::move(ref));
  }
  Ingest ingest(*view.agent, *view.fs, context.clock, ingest_options(args));
  bool is_single = refs.size() + args.all("session").size() == 1 && !args.has("all");
  for (const Ref& ref : refs) {
    Status done = ingest.refresh(ref);
    WARREN_TRY(is_single ? std::move(done) : note_failure(ingest, to_string(ref), std::move(done)));
  }
  if (args.has("all")) WARREN_TRY(ingest.refresh_all());
  for (const std::string& name : args.all("session")) WARREN_TRY(add_session(context, ingest, name));
  WARREN_TRY(ingest.finish());
  WARREN_TRY(view.fs->check_recorded());
  return show_report(context, args, ingest.report());
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
  common.push_back({.name = "session",
                    .value = "NAME",
                    .help = "the files that a session of `warren run` shows, as session:/NAME; repeatable",
                    .is_list = true});
  std::vector<Option> refreshing{{.name = "all", .help = "every item that came from the web"}};
  refreshing.insert(refreshing.end(), common.begin(), common.end());
  std::vector<Option> adding{
      {.name = "drive", .value = "DRIVE", .help = "the drive for files [default: disk, by their absolute paths]"},
      {.name = "include",
       .value = "GLOB",
       .help = "only files that match, as in .gitignore; repeatable",
       .is_list = true},
      {.name = "exclude", .value = "GLOB", .help = "not what matches; repeatable", .is_list = true},
      {.name = "watch", .help = "keep running until interrupted, and follow changes and deletions"}};
  adding.insert(adding.end(), common.begin(), common.end());
  return {
      {.name = "add",
       .summary = "Add files, folders and web addresses as items",
       .details =
           "Folders are added with everything in them, except what .gitignore and .warrenignore leave out, "
           ".git, .agentfs, and links. "
           "Text is stored as UTF-8; anything else keeps its bytes. Adding again changes only what has changed. With "
           "--watch, and for sessions, items of files that are gone are deleted, unless they were changed here.",
       .positionals = {{.name = "PATH",
                        .help = "a file, a folder, or an http or https address",
                        .times = Times::kAny,
                        .suggest = Suggest::kHostFiles}},
       .options = std::move(adding),
       .subcommands = {},
       .handler = run_context_add},
      {.name = "refresh",
       .summary = "Fetch items from the web again",
       .details = "An item that was changed here since it was fetched is not replaced unless --on-conflict overwrite "
                  "is given. "
                  "To refresh files of the machine, add them again; those of a session are refreshed by --session.",
       .positionals = {{.name = "REF", .help = "an item that came from the web", .times = Times::kAny}},
       .options = std::move(refreshing),
       .subcommands = {},
       .handler = run_context_refresh}};
}

}  // namespace warren::cli
