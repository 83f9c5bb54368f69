#include "cli/context/context_watch.h"

#include <chrono>
#include <csignal>

#include <poll.h>

#include <fmt/format.h>

#include "base/path.h"
#include "cli/show/text.h"
#include "os/host_files.h"

namespace warren::cli {
namespace {

// A program that saves a file does several things to it.
constexpr std::chrono::milliseconds kSettleTime{100};

std::string_view name_of_change(ItemChange change) {
  switch (change) {
    case ItemChange::kAdded: return "added";
    case ItemChange::kReplaced: return "replaced";
    case ItemChange::kDeleted: return "deleted";
  }
  return "changed";
}

bool is_path_at_or_below(std::string_view path, std::string_view top) {
  return path == top || (path.starts_with(top) && (top == "/" || path.substr(top.size()).starts_with('/')));
}

}  // namespace

void show_change(Context& context, const Arguments& args, ItemChange change, const Ref& ref) {
  if (args.has("json")) {
    Json line;
    line["change"] = name_of_change(change);
    set_bytes(line, "ref", to_string(ref));
    context.out.json_line(line);
  } else {
    context.out.print("{} {}\n", name_of_change(change), context.out.name(to_string(ref)));
  }
}

void show_failures(Context& context, const Arguments& args, const IngestReport& report) {
  for (const auto& failure : report.failures) {
    if (args.has("json")) {
      Json line{{"change", "failed"}};
      set_bytes(line, "what", failure.what);
      line["message"] = failure.message;
      context.out.json_line(line);
    } else {
      context.err.print("warren: {}: {}\n", context.err.name(failure.what), context.err.name(failure.message));
    }
  }
}

Result<std::unique_ptr<ContextWatch>> ContextWatch::open() {
  Signals signals = WARREN_TRY(Signals::take({SIGINT, SIGTERM}));
  SourceWatch watch = WARREN_TRY(SourceWatch::open());
  return std::unique_ptr<ContextWatch>(new ContextWatch(std::move(signals), std::move(watch)));
}

bool ContextWatch::is_interrupted() {
  if (is_interrupted_) return true;
  Result<int> signal = signals_.wait(-1, std::chrono::milliseconds(0));
  is_interrupted_ = signal.ok() && *signal != 0;
  return is_interrupted_;
}

void ContextWatch::watch_with(IngestOptions& options) {
  options.on_folder = [this](int dir, const std::string& host_path) { return watch_.add(dir, host_path); };
  options.is_cancelled = [this] { return is_interrupted(); };
}

Status ContextWatch::add(Ingest& ingest, const std::string& host_path) {
  IngestSource source = WARREN_TRY(ingest.find_source(host_path));
  if (!source.is_folder) {
    std::string above(directory_of(source.host_path));
    Fd dir = WARREN_TRY(open_host_dir(above));
    WARREN_TRY(watch_.add(dir.get(), above));
  }
  sources_.push_back(std::move(source));
  return Ok{};
}

Status ContextWatch::catch_up(Ingest& ingest) {
  for (const IngestSource& source : sources_) {
    WARREN_TRY(ingest.follow(source, "").within([&] { return "add " + quote(source.host_path); }));
  }
  return Ok{};
}

Status ContextWatch::follow_source(Ingest& ingest, const IngestSource& source, const SourceWatch::Changes& changes) {
  if (changes.is_everything) return ingest.follow(source, "");
  for (const std::string& path : changes.paths) {
    if (is_path_at_or_below(source.host_path, path)) {
      WARREN_TRY(ingest.follow(source, ""));
    } else if (is_path_at_or_below(path, source.host_path)) {
      std::size_t start = source.host_path == "/" ? 1 : source.host_path.size() + 1;
      WARREN_TRY(ingest.follow(source, std::string_view(path).substr(start)));
    }
  }
  return Ok{};
}

// A folder that is gone as a whole may be one that is not mounted now: its items stay.
Status ContextWatch::follow(Context& context, Ingest& ingest, const SourceWatch::Changes& changes) {
  for (auto source = sources_.begin(); source != sources_.end();) {
    Status done = follow_source(ingest, *source, changes);
    bool is_gone = !done.ok() && source->is_folder && done.error().code() == Code::kNotFound;
    if (!done.ok() && !is_gone) return done;
    if (is_gone) {
      context.err.print("warren: {} is gone; its items stay\n", context.err.name(source->host_path));
      source = sources_.erase(source);
    } else {
      ++source;
    }
  }
  return Ok{};
}

// False: a signal came.
Result<bool> ContextWatch::wait_for_change(const IdleWork& run_idle_work) {
  while (!is_interrupted()) {
    pollfd changed{watch_.fd(), POLLIN, 0};
    if (::poll(&changed, 1, 0) == 0 && run_idle_work()) continue;
    int signal = WARREN_TRY(signals_.wait(watch_.fd()));
    if (signal == 0) signal = WARREN_TRY(signals_.wait(-1, kSettleTime));
    is_interrupted_ = signal != 0;
    return !is_interrupted_;
  }
  return false;
}

Result<Exit> ContextWatch::run(Context& context, const Arguments& args, OpenView& view, Ingest& ingest,
                               const IdleWork& run_idle_work) {
  context.err.print("warren: watching {} {}; Ctrl-C ends it\n", watch_.size(),
                    watch_.size() == 1 ? "folder" : "folders");
  for (;;) {
    WARREN_TRY(context.out.finish());
    if (sources_.empty()) return Error(Code::kNotFound, "nothing is left to watch");
    bool has_changed = WARREN_TRY(wait_for_change(run_idle_work));
    if (!has_changed) return Exit::kOk;
    Status done = follow(context, ingest, watch_.take());
    if (!done.ok() && is_interrupted_) return Exit::kOk;
    show_failures(context, args, ingest.take_report());
    WARREN_TRY(std::move(done));
    WARREN_TRY(view.fs->check_recorded());
  }
}

}  // namespace warren::cli
