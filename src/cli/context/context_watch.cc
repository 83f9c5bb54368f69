#include "cli/context/context_watch.h"

#include <chrono>
#include <csignal>

#include <poll.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/below.h"
#include "base/path.h"
#include "cli/show/text.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

// A program that saves a file does several things to it.
constexpr std::chrono::milliseconds kSettleTime{100};
// How often to look whether a folder was replaced: neither a mount nor a renamed folder above it is an event.
constexpr std::chrono::milliseconds kLookInterval{1000};

std::string_view name_of_change(ItemChange change) {
  switch (change) {
    case ItemChange::kAdded: return "added";
    case ItemChange::kReplaced: return "replaced";
    case ItemChange::kDeleted: return "deleted";
  }
  return "changed";
}

// The folder that is at the source's path now, if there is one.
std::optional<FolderIdentity> find_folder(const IngestSource& source) {
  Result<Fd> dir = open_host_dir(folder_of(source));
  Result<FolderIdentity> found = dir.ok() ? identify_folder(dir->get()) : Result<FolderIdentity>(dir.error());
  return found.ok() ? std::optional(*found) : std::nullopt;
}

// Whether the folder was replaced while it was followed.
bool is_replaced(const Status& done) {
  return !done.ok() && (done.error().code() == Code::kNotFound || done.error().code() == Code::kConflict);
}

// Whether there is nothing to follow: an empty folder, or a folder without the file.
Result<bool> is_empty(const IngestSource& source) {
  if (!source.is_folder) {
    std::optional<struct stat> info = WARREN_TRY(find_host_link(source.host_path));
    return !info.has_value();
  }
  Fd dir = WARREN_TRY(open_host_dir(source.host_path));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  return entries.empty();
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
  sources_.push_back({std::move(source)});
  return Ok{};
}

Status ContextWatch::catch_up(Context& context, Ingest& ingest) {
  for (Watched& watched : sources_) {
    WARREN_TRY(look_at(context, ingest, watched).within([&] { return "add " + quote(watched.source.host_path); }));
  }
  return Ok{};
}

// Follows this folder from now on.
Status ContextWatch::begin(Ingest& ingest, Watched& watched, const FolderIdentity& identity) {
  IngestSource& source = watched.source;
  source.identity = identity;
  if (watched.state != State::kNew) watch_.forget_replaced(folder_of(source));
  if (!source.is_folder) {
    std::string above = folder_of(source);
    Fd dir = WARREN_TRY(open_host_dir(above));
    WARREN_TRY(watch_.add(dir.get(), above));
  }
  WARREN_TRY(ingest.follow(source, ""));
  watched.state = State::kFollowed;
  return Ok{};
}

// Whether the folder is still the one that is followed. One that is gone, or is another and empty, may be one that is
// not mounted now: its items stay.
Status ContextWatch::look_at(Context& context, Ingest& ingest, Watched& watched) {
  IngestSource& source = watched.source;
  std::string shown = context.err.name(source.host_path);
  std::optional<FolderIdentity> now = find_folder(source);
  if (now && watched.state == State::kFollowed && now == source.identity) return Ok{};
  Result<bool> empty = now ? is_empty(source) : Result<bool>(true);
  if (!empty.ok()) now.reset();  // gone meanwhile, or unreadable
  bool is_kept = !now;
  if (now && *empty) is_kept = WARREN_TRY(ingest.has_items(source));
  if (is_kept) {
    State state = now ? State::kEmpty : State::kGone;
    bool is_empty_folder = now && source.is_folder;
    if (state != watched.state) {
      context.err.print("warren: {} is {}; its items stay\n", shown, is_empty_folder ? "empty now" : "gone");
    }
    watched.state = state;
    return Ok{};
  }
  if (watched.state != State::kNew) {
    bool is_other = watched.state == State::kFollowed;
    context.err.print("warren: {} is {}\n", shown, is_other ? "another folder now" : "there again");
  }
  Status begun = begin(ingest, watched, *now);
  if (!is_replaced(begun)) return begun;
  watched.state = State::kGone;  // the next look finds out
  return Ok{};
}

Status ContextWatch::follow_changes(Ingest& ingest, const IngestSource& source, const SourceWatch::Changes& changes) {
  if (changes.is_everything) return ingest.follow(source, "");
  for (const std::string& path : changes.paths) {
    if (is_at_or_below(source.host_path, path)) {
      WARREN_TRY(ingest.follow(source, ""));
    } else if (is_at_or_below(path, source.host_path)) {
      std::size_t start = source.host_path == "/" ? 1 : source.host_path.size() + 1;
      WARREN_TRY(ingest.follow(source, std::string_view(path).substr(start)));
    }
  }
  return Ok{};
}

Status ContextWatch::follow(Context& context, Ingest& ingest, const SourceWatch::Changes& changes) {
  for (Watched& watched : sources_) {
    WARREN_TRY(look_at(context, ingest, watched));
    if (watched.state != State::kFollowed) continue;
    Status done = follow_changes(ingest, watched.source, changes);
    if (is_replaced(done)) WARREN_TRY(look_at(context, ingest, watched));
    else WARREN_TRY(std::move(done));
  }
  return Ok{};
}

// True: something has changed, or it is time to look. False: a signal came.
Result<bool> ContextWatch::wait_for_change(const IdleWork& run_idle_work) {
  while (!is_interrupted()) {
    pollfd changed{watch_.fd(), POLLIN, 0};
    if (::poll(&changed, 1, 0) == 0 && run_idle_work()) return true;
    int signal = WARREN_TRY(signals_.wait(watch_.fd(), kLookInterval));
    bool has_events = ::poll(&changed, 1, 0) > 0;
    if (signal == 0 && has_events) signal = WARREN_TRY(signals_.wait(-1, kSettleTime));
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
