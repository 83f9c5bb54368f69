// Answers the kernel's requests for one mount from a FileSystem.
//
// One thread reads requests and answers short ones itself: passing each to another thread made everything 1.5 to 2
// times slower. Slow ones (fsync, large reads and writes, copies) go to a few workers, so that the next request does
// not wait for them. The kernel may cache names, attributes and content for as long as it likes; changes by others are
// passed on as notices. The reasons for each choice: docs/design/fuse.md.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <pthread.h>

#include "base/result.h"
#include "fs/change_listener.h"
#include "fs/file_system.h"
#include "fuse/buffers.h"
#include "fuse/channel.h"
#include "fuse/kernel_nodes.h"
#include "fuse/open_dirs.h"
#include "fuse/passthrough.h"
#include "fuse/workers.h"

struct fuse_attr;
struct fuse_entry_out;

namespace warren {

struct SessionOptions {
  // Shown as the owner of everything; stored owners stay unchanged.
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  // Something is mounted on names in it. The kernel unmounts that on the notice that every name may have changed.
  bool has_mounts = false;
  // Large unmodified files of the base are read by the kernel itself, if it allows that.
  bool passthrough = false;
  // Closing a file calls FileSystem::flush, so that close(2) reports what could not be stored. Costs a request for
  // each.
  bool flushes = false;
  // A program that opens a file for reading makes the mount read nothing from it, before its content, which the kernel
  // may have cached: a filesystem can refuse or record that. Costs two requests for each open file.
  bool opens = false;
  // Called when changes made through memory maps were lost, with all of Session::lost(). By any thread that may wait.
  std::function<void(const std::vector<std::string>&)> when_lost;
};

class Session final : private ChangeListener {
 public:
  // The filesystem must outlive it. `when_ready` is called once, after the kernel's first request was answered: from
  // then on the mount works.
  Session(FileSystem& fs, Fd device, const SessionOptions& options, std::function<void()> when_ready);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Serves until the filesystem is unmounted or stop() is called. Call it once.
  Status serve();

  // Why passthrough is not active though it was requested; "" if it is. Valid once `when_ready` was called.
  const std::string& passthrough_problem() const { return passthrough_problem_; }

  // Call from another thread; returns when serve() is about to return. Programs that still have files open here get
  // errors from then on.
  void stop();

  // What the kernel wrote back from memory maps and could not be stored: a sentence for each of the first ten files,
  // and one for the rest. Nobody was waiting for an answer, so whoever ends the mount reports it. Searches the tree for
  // the files' names.
  std::vector<std::string> lost();

 private:
  using Handler = Status (Session::*)(const Request& request, Buffer& scratch);

  Status serve_requests();
  void dispatch(Buffer& buffer, Bytes received);
  static Handler handler_of(std::uint32_t opcode);
  bool is_slow(const Request& request);
  bool may_wait_for_readers(const Request& request);
  void begin_passthrough();
  void pass_on(Workers& workers, Handler handler, const Request& request, Buffer& buffer, bool may_wait);
  bool handle_without_waiting(Handler handler, const Request& request, Buffer& scratch);
  void handle(Handler handler, const Request& request, Buffer& scratch);

  // Session and mount.
  Status init(const Request& request, Buffer& scratch);
  Status destroy(const Request& request, Buffer& scratch);
  Status statfs(const Request& request, Buffer& scratch);
  void forget(const Request& request);
  void forget_batch(const Request& request);

  // Names.
  Status lookup(const Request& request, Buffer& scratch);
  Status mknod(const Request& request, Buffer& scratch);
  Status mkdir(const Request& request, Buffer& scratch);
  Status symlink(const Request& request, Buffer& scratch);
  Status link(const Request& request, Buffer& scratch);
  Status unlink(const Request& request, Buffer& scratch);
  Status rmdir(const Request& request, Buffer& scratch);
  Status rename(const Request& request, Buffer& scratch);
  Status rename_with_flags(const Request& request, Buffer& scratch);
  Status rename_by(const Request& request, Bytes names, std::uint64_t new_parent, std::uint32_t flags);

  // Directories.
  Status open_dir(const Request& request, Buffer& scratch);
  Status read_dir(const Request& request, Buffer& scratch);
  Status read_dir_plus(const Request& request, Buffer& scratch);
  Status release_dir(const Request& request, Buffer& scratch);
  Status list(const Request& request, Buffer& scratch, DirDetail detail);
  Result<std::shared_ptr<DirStream>> stream_of(OpenDir& opened, std::uint64_t offset);

  // Nodes.
  Status get_attributes(const Request& request, Buffer& scratch);
  Status set_attributes(const Request& request, Buffer& scratch);
  Status read_link(const Request& request, Buffer& scratch);
  Status get_xattr(const Request& request, Buffer& scratch);
  Status set_xattr(const Request& request, Buffer& scratch);
  Status list_xattrs(const Request& request, Buffer& scratch);
  Status remove_xattr(const Request& request, Buffer& scratch);
  Status answer_sized(const Request& request, std::uint32_t size, Bytes value);

  // Content.
  Status open(const Request& request, Buffer& scratch);
  Status release(const Request& request, Buffer& scratch);
  Status read(const Request& request, Buffer& scratch);
  Status write(const Request& request, Buffer& scratch);
  Status append(const Request& request, std::uint64_t expected_offset, Bytes data);
  Status flush(const Request& request, Buffer& scratch);
  Status write_back(Inode node, std::uint64_t offset, Bytes data);
  void note_loss(Inode node, const Error& why);
  void forget_loss(Inode node);
  Status check_loss(Inode node);
  void report_losses();
  std::map<Inode, Error> list_losses();
  std::vector<std::string> describe_losses(std::map<Inode, Error> nodes);
  Status sync(const Request& request, Buffer& scratch);
  Status sync_dir(const Request& request, Buffer& scratch);
  Status sync_all(const Request& request, Buffer& scratch);
  Status allocate(const Request& request, Buffer& scratch);
  Status seek(const Request& request, Buffer& scratch);
  Status copy(const Request& request, Buffer& scratch);
  Status drop_privileges(Inode node);

  void send_entry(const Request& request, const Attributes& attributes);
  Status answer_entry(const Request& request, const Attributes& attributes);
  void answer_attributes(const Request& request, const Attributes& attributes);
  Status answer_made(const Request& request, const Result<Attributes>& made);
  Status answer_removed(const Request& request, Status removed);
  Status answer_done(const Request& request, Bytes answer, Status done);
  void fill(fuse_attr& out, const Attributes& attributes) const;
  void fill(fuse_entry_out& out, const Attributes& attributes) const;

  // Sends the notice from a thread that answers no requests: it may wait for a page that one of them fills.
  void notify_later(Inode node);
  void send_changed(Inode node);
  void run_later(std::function<void()> task);  // by that thread
  void stop_listening();
  void end_notices();

  void entry_changed(Inode parent, std::string_view name) override;
  void node_changed(Inode node) override;
  void everything_changed() override;

  FileSystem& fs_;
  Channel channel_;
  SessionOptions options_;
  std::function<void()> when_ready_;
  bool knows_all_names_notice_ = false;
  bool is_notified_ = false;
  std::unique_ptr<Passthrough> passthrough_;  // null: files need no opening
  std::string passthrough_problem_;
  std::uint64_t entry_seconds_ = 0;
  std::uint64_t attribute_seconds_ = 0;
  KernelNodes kernel_nodes_;
  OpenDirs open_dirs_;
  Buffers buffers_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Workers> waiters_;  // for requests that wait for another process's transaction
  std::mutex listening_mutex_;        // held while fs_.listen(nullptr) runs
  std::mutex notices_mutex_;
  bool notices_ended_ = false;        // under notices_mutex_
  std::unique_ptr<Workers> notices_;  // one thread, from the first run_later on; under notices_mutex_
  std::mutex losses_mutex_;
  std::map<Inode, Error> losses_;  // why a page of the file could not be stored; under losses_mutex_
  std::condition_variable report_ended_;
  bool is_reporting_ = false;        // under losses_mutex_
  std::set<Inode> reported_losses_;  // under losses_mutex_; changed only by whoever is reporting

  std::atomic<bool> stopping_ = false;
  std::atomic<bool> serving_ = false;
  pthread_t thread_{};
};

}  // namespace warren
