// The threads of a store that is open for a mount: they end batches in time, notice changes by other
// processes, and sync and checkpoint while nobody waits for it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "db/database.h"
#include "fs/change_listener.h"
#include "os/fd.h"
#include "os/files/watch.h"
#include "store/record/journal.h"
#include "store/tree.h"

namespace warren {

// The database and journal outlive it. Thread-safe.
class Keeper {
 public:
  // `work` does a part of the deferred work and returns whether there is more.
  static Result<std::unique_ptr<Keeper>> start(Database& database, Journal& journal,
                                               std::function<Result<bool>()> work);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Ends its threads; after it returns nothing happens in the background. A batch may still be
  // open.
  void stop();

  void batch_opened() { wake(); }
  void batch_ended();  // under the database's lock, outside a transaction
  void everything_changed();
  void changed_here(Change change);  // not by a caller of ours, who would know
  // Before a large write, without the database's lock: waits while the log has grown too long.
  void make_room();
  // There is work to do after `delay`; what is planned earlier stays.
  void has_work(std::chrono::milliseconds delay = {});

  void audited_here();                            // rows were added to the audit trail by this process
  void when_audited(std::function<void()> call);  // see Store::when_audited

  // Looks whether the file was overwritten (Database::look_for_writes); also after stop().
  void look_at_file();

  // See FileSystem::listen; each tree has one listener. Every listener gets the changes of both trees.
  void listen(Tree tree, ChangeListener* listener);

 private:
  Keeper(Database& database, Journal& journal, std::function<Result<bool>()> work, FileWatch watch, Fd wake);
  void keep();
  int wait_milliseconds() const;
  bool wants_idle_checkpoint() const;
  void work_when_due();
  void look_when_due(const FileWatch::Happened& happened);
  // What was changed by others since the last look.
  struct News {
    std::vector<Change> changes;
    bool is_everything = false;
  };
  Result<News> read_news();
  static void report(ChangeListener& listener, const News& news, bool everything);
  Status report_changes();
  void wake();

  bool take_events();
  FileWatch::Happened take_unread();
  void notice_writes(FileWatch::Writes writes);  // to the file

  Result<std::uint32_t> checkpoint_unwatched(Database& database);
  void checkpoint_when_asked();
  void ask_for(bool& what);
  Status checkpoint();

  Database& database_;
  Journal& journal_;
  std::function<Result<bool>()> work_;
  std::mutex watch_mutex_;
  FileWatch watch_;             // under watch_mutex_, like the following
  FileWatch::Happened unread_;  // taken from it, and not yet handled by keep()
  Fd wake_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> everything_changed_ = false;
  std::atomic<bool> has_changed_here_ = false;
  std::atomic<std::int64_t> work_at_ = 0;  // monotonic milliseconds; 0: there is none
  std::atomic<std::int64_t> unsynced_since_ =
      0;  // monotonic milliseconds; 0: everything is synced, or a sync is requested

  std::mutex changed_here_mutex_;
  std::vector<Change> changed_here_;

  std::mutex listener_mutex_;  // held while a listener is called, so that it can be removed safely
  std::array<ChangeListener*, kTrees> listeners_{};
  std::function<void()> when_audited_;
  std::atomic<bool> wants_audit_ = false;  // there is one
  std::atomic<bool> has_audited_here_ = false;

  // Used by keep()'s thread only.
  std::uint64_t seen_epoch_ = 0;
  std::uint32_t seen_commits_ = 0;  // of others
  std::int64_t seen_seq_ = 0;
  std::int64_t look_at_ = 0;              // monotonic milliseconds; 0: when something happens
  int look_interval_ = 0;                 // milliseconds
  std::uint32_t idle_checkpoint_of_ = 0;  // the log's pages at the last one, so that it is not repeated

  std::mutex checkpoint_mutex_;
  std::condition_variable checkpoint_asked_;
  std::condition_variable checkpoint_ended_;
  bool checkpoint_runs_ = false;   // under checkpoint_mutex_
  std::uint64_t checkpoints_ = 0;  // under checkpoint_mutex_
  bool wants_checkpoint_ = false;  // under checkpoint_mutex_
  bool wants_sync_ = false;        // under checkpoint_mutex_
  std::unique_ptr<Database> checkpointer_;
  std::atomic<std::uint32_t> moved_pages_ = 0;  // pages of the log that the checkpointer has copied to the file

  std::thread keeping_;
  std::thread checkpointing_;
};

}  // namespace warren
