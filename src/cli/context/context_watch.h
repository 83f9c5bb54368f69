// `warren context ID add --watch`: items follow their sources until the command is interrupted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/vfs/view.h"
#include "drives/ingest.h"
#include "drives/source_watch.h"
#include "os/processes/signals.h"

namespace warren::cli {

// What is watched, and the signals that end it. Take it before the agent is opened: threads that are started later
// leave the signals to it.
class ContextWatch {
 public:
  static Result<std::unique_ptr<ContextWatch>> open();

  // With these, an Ingest watches every folder that it lists, and ends when a signal comes.
  void watch_with(IngestOptions& options);
  // kNotFound, kInvalid, kLimit.
  Status add(Ingest& ingest, const std::string& host_path);

  // Brings the items up to date; deletes those whose files are gone. An empty folder deletes nothing: it may be where
  // something is not mounted.
  Status catch_up(Context& context, Ingest& ingest);
  // Waits for changes and follows them, with a line for each, until a signal comes. A folder that is gone keeps its
  // items; when it is back, they are brought up to date.
  // While nothing happens, `run_idle_work` is called as long as it returns that there is more to do.
  using IdleWork = std::function<bool()>;
  Result<Exit> run(Context& context, const Arguments& args, OpenView& view, Ingest& ingest,
                   const IdleWork& run_idle_work);
  bool is_interrupted();

 private:
  ContextWatch(Signals signals, SourceWatch watch) : signals_(std::move(signals)), watch_(std::move(watch)) {}

  enum class State { kNew, kFollowed, kGone, kEmpty };
  struct Watched {
    IngestSource source;  // with the identity of the folder that is followed
    State state = State::kNew;
  };

  Status follow(Context& context, Ingest& ingest, const SourceWatch::Changes& changes);
  Result<bool> wait_for_change(const IdleWork& run_idle_work);
  Status follow_changes(Ingest& ingest, const IngestSource& source, const SourceWatch::Changes& changes);
  Status look_at(Context& context, Ingest& ingest, Watched& watched);
  Status begin(Ingest& ingest, Watched& watched, const FolderIdentity& identity);

  Signals signals_;
  SourceWatch watch_;
  std::vector<Watched> sources_;
  bool is_interrupted_ = false;
};

// Prints a change as a line.
void show_change(Context& context, const Arguments& args, ItemChange change, const Ref& ref);
// Prints failures on standard error, or as lines of JSON.
void show_failures(Context& context, const Arguments& args, const IngestReport& report);

}  // namespace warren::cli
