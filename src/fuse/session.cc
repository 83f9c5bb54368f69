#include "fuse/session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <linux/fuse.h>

#include "base/no_wait.h"
#include "os/error.h"

namespace warren {
namespace {

constexpr int kWorkers = 3;
constexpr int kWaiters = 2;
// A request that moves more bytes than this goes to a worker.
constexpr std::size_t kInlineBytes = std::size_t{128} << 10;

// How long the kernel may cache. A day if it is notified of changes, otherwise a second. Before Linux 6.16 there is no
// notice that every name may have changed, so names are cached for a second there.
constexpr std::uint64_t kLongSeconds = 86'400;
constexpr std::uint64_t kShortSeconds = 1;
constexpr std::uint32_t kMinorWithAllNames = 44;

// Newer than Debian 12's header. From <linux/fuse.h> of Linux 6.9: a flag, and a field after flags2.
constexpr std::uint64_t kInitPassthrough = std::uint64_t{1} << 37;
constexpr std::uint32_t kStackDepth = 1;  // files of ordinary filesystems; others may still be stacked on ours
void set_stack_depth(fuse_init_out& out) {
  constexpr std::size_t kAt = offsetof(fuse_init_out, flags2) + sizeof(std::uint32_t);
  std::memcpy(reinterpret_cast<std::byte*>(&out) + kAt, &kStackDepth, sizeof kStackDepth);
}

constexpr int kWakeSignal = SIGUSR2;

void wake_up(int) {}

}  // namespace

Session::Session(FileSystem& fs, Fd device, const SessionOptions& options, std::function<void()> when_ready)
    : fs_(fs),
      channel_(std::move(device)),
      options_(options),
      when_ready_(std::move(when_ready)),
      kernel_nodes_(fs),
      workers_(std::make_unique<Workers>(kWorkers)),
      waiters_(std::make_unique<Workers>(kWaiters)) {}

Session::~Session() {
  stop_listening();
  workers_.reset();
  waiters_.reset();
}

Status Session::serve() {
  // A blocking read of /dev/fuse returns only for a signal; stop() sends this one.
  struct sigaction action {};
  action.sa_handler = wake_up;
  ::sigaction(kWakeSignal, &action, nullptr);
  thread_ = ::pthread_self();
  is_notified_ = fs_.listen(this).ok();
  serving_ = true;
  Status outcome = serve_requests();
  serving_ = false;
  stop_listening();
  end_notices();
  workers_ = std::make_unique<Workers>(0);  // running tasks finish before anything is closed
  waiters_ = std::make_unique<Workers>(0);
  channel_.close();
  return outcome;
}

Status Session::serve_requests() {
  Buffer buffer = buffers_.take();
  std::function<bool()> meanwhile = [this] { return fs_.run_idle_work(); };
  while (!stopping_) {
    Result<Bytes> received = channel_.receive(buffer, meanwhile);
    if (!received.ok() && received.error().code() == Code::kUnavailable) return Ok{};
    Bytes request = WARREN_TRY(std::move(received));
    dispatch(buffer, request);
  }
  return Ok{};
}

// By stop() and by the thread that serves, perhaps at the same time.
void Session::stop_listening() {
  std::lock_guard guard(listening_mutex_);
  fs_.listen(nullptr).ignore("there is no listener any more");
}

void Session::stop() {
  // While requests are still answered: a notice in progress may wait for a page that one of them fills.
  stop_listening();
  end_notices();
  stopping_ = true;
  // Repeatedly: the signal may arrive just before the read starts.
  while (serving_) {
    ::pthread_kill(thread_, kWakeSignal);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Session::is_slow(const Request& request) {
  switch (request.opcode()) {
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_SYNCFS:
    case FUSE_FALLOCATE: return true;
    case FUSE_COPY_FILE_RANGE: {
      // Programs ask for the largest size; the file knows the actual one.
      Result<Attributes> from = fs_.get_attributes(Inode{request.node()});
      return !from.ok() || from->size > kInlineBytes;
    }
    case FUSE_OPEN:
    case FUSE_SETATTR: return may_wait_for_readers(request);
    case FUSE_WRITE: return request.rest().size() > kInlineBytes;
    case FUSE_READ: {
      Result<const fuse_read_in*> in = request.body<fuse_read_in>();
      return in.ok() && (*in)->size > kInlineBytes;
    }
    default: return false;
  }
}

bool Session::may_wait_for_readers(const Request& request) {
  if (!passthrough_ || !passthrough_->is_in_use(Inode{request.node()})) return false;
  if (request.opcode() == FUSE_OPEN) {
    Result<const fuse_open_in*> in = request.body<fuse_open_in>();
    return in.ok() && ((*in)->flags & O_ACCMODE) != O_RDONLY;
  }
  Result<const fuse_setattr_in*> in = request.body<fuse_setattr_in>();
  return in.ok() && ((*in)->valid & FATTR_SIZE) != 0;
}

void Session::dispatch(Buffer& buffer, Bytes received) {
  std::optional<Request> request = Request::parse(received);
  if (!request) return;
  switch (request->opcode()) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET: {
      NoWait no_wait;  // what cannot be removed now is removed later
      return request->opcode() == FUSE_FORGET ? forget(*request) : forget_batch(*request);
    }
    case FUSE_INTERRUPT: return;  // no request waits for long
    default: break;
  }
  Handler handler = handler_of(request->opcode());
  if (is_slow(*request)) return pass_on(*workers_, handler, *request, buffer, false);
  Buffer scratch = buffers_.take();
  bool is_handled = handle_without_waiting(handler, *request, scratch);
  buffers_.give_back(std::move(scratch));
  if (!is_handled) pass_on(*waiters_, handler, *request, buffer, true);
}

// The buffer moves along with the request; this thread reads the next one into another buffer.
void Session::pass_on(Workers& workers, Handler handler, const Request& request, Buffer& buffer, bool may_wait) {
  auto taken = std::make_shared<Buffer>(std::move(buffer));  // shared only because std::function must be copyable
  buffer = buffers_.take();
  workers.run([this, handler, taken, slow = request, may_wait] {
    Buffer scratch = buffers_.take();
    bool is_handled = true;
    if (may_wait) handle(handler, slow, scratch);
    else is_handled = handle_without_waiting(handler, slow, scratch);
    buffers_.give_back(std::move(scratch));
    if (!is_handled) pass_on(*waiters_, handler, slow, *taken, true);
    buffers_.give_back(std::move(*taken));
  });
}

// False if it would have to wait for another process's transaction; nothing is changed or answered then.
bool Session::handle_without_waiting(Handler handler, const Request& request, Buffer& scratch) {
  if (handler == nullptr) {
    channel_.refuse(request, ENOSYS);
    return true;
  }
  NoWait no_wait;
  Status done = (this->*handler)(request, scratch);
  if (!done.ok() && no_wait.was_hit()) return false;
  if (!done.ok()) channel_.refuse(request, errno_of(done.error().code()));
  return true;
}

void Session::handle(Handler handler, const Request& request, Buffer& scratch) {
  if (handler == nullptr) return channel_.refuse(request, ENOSYS);
  Status done = (this->*handler)(request, scratch);
  if (!done.ok()) channel_.refuse(request, errno_of(done.error().code()));
}

// Everything else is answered with ENOSYS, after which the kernel does not ask again: opening and closing files usually
// needs no requests (OPEN without passthrough, FLUSH unless the filesystem gathers writes), nor does CREATE, which as
// MKNOD saves a RELEASE.
Session::Handler Session::handler_of(std::uint32_t opcode) {
  switch (opcode) {
    case FUSE_INIT: return &Session::init;
    case FUSE_DESTROY: return &Session::destroy;
    case FUSE_STATFS: return &Session::statfs;
    case FUSE_LOOKUP: return &Session::lookup;
    case FUSE_MKNOD: return &Session::mknod;
    case FUSE_MKDIR: return &Session::mkdir;
    case FUSE_SYMLINK: return &Session::symlink;
    case FUSE_LINK: return &Session::link;
    case FUSE_UNLINK: return &Session::unlink;
    case FUSE_RMDIR: return &Session::rmdir;
    case FUSE_RENAME: return &Session::rename;
    case FUSE_RENAME2: return &Session::rename_with_flags;
    case FUSE_OPENDIR: return &Session::open_dir;
    case FUSE_READDIR: return &Session::read_dir;
    case FUSE_READDIRPLUS: return &Session::read_dir_plus;
    case FUSE_RELEASEDIR: return &Session::release_dir;
    case FUSE_GETATTR: return &Session::get_attributes;
    case FUSE_SETATTR: return &Session::set_attributes;
    case FUSE_READLINK: return &Session::read_link;
    case FUSE_GETXATTR: return &Session::get_xattr;
    case FUSE_SETXATTR: return &Session::set_xattr;
    case FUSE_LISTXATTR: return &Session::list_xattrs;
    case FUSE_REMOVEXATTR: return &Session::remove_xattr;
    case FUSE_OPEN: return &Session::open;
    case FUSE_RELEASE: return &Session::release;
    case FUSE_READ: return &Session::read;
    case FUSE_WRITE: return &Session::write;
    case FUSE_FLUSH: return &Session::flush;
    case FUSE_FSYNC: return &Session::sync;
    case FUSE_FSYNCDIR: return &Session::sync_dir;
    case FUSE_SYNCFS: return &Session::sync_all;
    case FUSE_FALLOCATE: return &Session::allocate;
    case FUSE_LSEEK: return &Session::seek;
    case FUSE_COPY_FILE_RANGE: return &Session::copy;
    default: return nullptr;
  }
}

Status Session::init(const Request& request, Buffer&) {
  // Kernels before 5.17 send the first four fields only, those before 7.6 of the protocol fewer.
  fuse_init_in known{};
  std::memcpy(&known, request.rest().data(), std::min(sizeof known, request.rest().size()));
  const fuse_init_in* in = &known;
  if (in->major != FUSE_KERNEL_VERSION || in->minor < 31) {
    channel_.refuse(request, EPROTO);
    return Ok{};
  }
  std::uint64_t wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES |
                         FUSE_CACHE_SYMLINKS | FUSE_NO_OPEN_SUPPORT | FUSE_INIT_EXT | FUSE_HANDLE_KILLPRIV_V2 |
                         FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO;
  // The kernel drops cached content when we say so, and when it learns of another size: it asks for that before our
  // notice has dropped the content. Without notices, also when a file's mtime has changed.
  if (!is_notified_) wanted |= FUSE_AUTO_INVAL_DATA;
  std::uint64_t offered = in->flags;
  if ((in->flags & FUSE_INIT_EXT) != 0) offered |= std::uint64_t{in->flags2} << 32;
  if (options_.passthrough) wanted |= kInitPassthrough;
  wanted &= offered;
  knows_all_names_notice_ = in->minor >= kMinorWithAllNames && !options_.has_mounts;
  entry_seconds_ = is_notified_ && knows_all_names_notice_ ? kLongSeconds : kShortSeconds;
  attribute_seconds_ = is_notified_ ? kLongSeconds : kShortSeconds;
  fuse_init_out out{};
  out.major = FUSE_KERNEL_VERSION;
  out.minor = std::min<std::uint32_t>(in->minor, FUSE_KERNEL_MINOR_VERSION);
  out.max_readahead = in->max_readahead;
  out.flags = static_cast<std::uint32_t>(wanted);
  out.flags2 = static_cast<std::uint32_t>(wanted >> 32);
  out.max_background = 64;
  out.congestion_threshold = 48;
  out.max_write = kIoBytesMax;
  out.max_pages = kIoBytesMax / 4096;
  out.time_gran = 1;
  bool can_pass = (wanted & kInitPassthrough) != 0;
  if (can_pass) set_stack_depth(out);
  channel_.answer(request, bytes_of(out));
  if (can_pass) begin_passthrough();
  else if (options_.passthrough) passthrough_problem_ = "this kernel does not support it; Linux 6.9 and later do";
  if (when_ready_) when_ready_();
  return Ok{};
}

void Session::begin_passthrough() {
  auto tried = std::make_unique<Passthrough>(fs_, channel_);
  Status allowed = tried->probe();
  if (allowed.ok()) passthrough_ = std::move(tried);
  else if (allowed.error().code() == Code::kNotPermitted) passthrough_problem_ = "the kernel allows it only for root";
  else passthrough_problem_ = allowed.error().message();
}

Status Session::destroy(const Request& request, Buffer&) {
  channel_.answer(request, {});
  return Ok{};
}

Status Session::statfs(const Request& request, Buffer&) {
  FileSystemStats stats = WARREN_TRY(fs_.stats(Inode{request.node()}));
  std::uint64_t capacity = stats.capacity_bytes != 0 ? stats.capacity_bytes : stats.used_bytes + stats.available_bytes;
  std::uint64_t inodes = stats.capacity_inodes != 0 ? stats.capacity_inodes : stats.used_inodes + (1ULL << 32);
  fuse_statfs_out out{};
  out.st.bsize = out.st.frsize = static_cast<std::uint32_t>(stats.block_bytes);
  out.st.blocks = capacity / stats.block_bytes;
  out.st.bfree = out.st.bavail = stats.available_bytes / stats.block_bytes;
  out.st.files = inodes;
  out.st.ffree = inodes - std::min(inodes, stats.used_inodes);
  out.st.namelen = 255;
  channel_.answer(request, bytes_of(out));
  return Ok{};
}

void Session::forget(const Request& request) {
  Result<const fuse_forget_in*> in = request.body<fuse_forget_in>();
  if (in.ok()) kernel_nodes_.forget(Inode{request.node()}, (*in)->nlookup);
}

void Session::forget_batch(const Request& request) {
  Result<const fuse_batch_forget_in*> in = request.body<fuse_batch_forget_in>();
  if (!in.ok()) return;
  Bytes list = request.after<fuse_batch_forget_in>();
  for (std::uint32_t i = 0; i < (*in)->count && list.size() >= sizeof(fuse_forget_one); ++i) {
    const auto* one = reinterpret_cast<const fuse_forget_one*>(list.data());
    kernel_nodes_.forget(Inode{one->nodeid}, one->nlookup);
    list = list.subspan(sizeof(fuse_forget_one));
  }
}

void Session::fill(fuse_attr& out, const Attributes& attributes) const {
  out = {};
  out.ino = attributes.inode.value;
  out.size = attributes.is_directory() ? 4096 : attributes.size;
  out.blocks = (attributes.size + 511) / 512;
  out.atime = static_cast<std::uint64_t>(attributes.atime.seconds);
  out.mtime = static_cast<std::uint64_t>(attributes.mtime.seconds);
  out.ctime = static_cast<std::uint64_t>(attributes.ctime.seconds);
  out.atimensec = static_cast<std::uint32_t>(attributes.atime.nanoseconds);
  out.mtimensec = static_cast<std::uint32_t>(attributes.mtime.nanoseconds);
  out.ctimensec = static_cast<std::uint32_t>(attributes.ctime.nanoseconds);
  out.mode = attributes.mode;
  out.nlink = attributes.nlink;
  out.uid = options_.uid.value_or(attributes.owner.uid);
  out.gid = options_.gid.value_or(attributes.owner.gid);
  out.rdev = static_cast<std::uint32_t>(attributes.rdev);
  out.blksize = 4096;
}

void Session::fill(fuse_entry_out& out, const Attributes& attributes) const {
  out = {};
  out.nodeid = attributes.inode.value;
  out.entry_valid = entry_seconds_;
  out.attr_valid = attribute_seconds_;
  fill(out.attr, attributes);
}

void Session::send_entry(const Request& request, const Attributes& attributes) {
  fuse_entry_out out;
  fill(out, attributes);
  channel_.answer(request, bytes_of(out));
}

Status Session::answer_entry(const Request& request, const Attributes& attributes) {
  WARREN_TRY(kernel_nodes_.add(attributes.inode));
  send_entry(request, attributes);
  return Ok{};
}

Status Session::answer_done(const Request& request, Bytes answer, Status done) {
  WARREN_TRY(std::move(done));
  channel_.answer(request, answer);
  return Ok{};
}

void Session::answer_attributes(const Request& request, const Attributes& attributes) {
  fuse_attr_out out{};
  out.attr_valid = attribute_seconds_;
  fill(out.attr, attributes);
  channel_.answer(request, bytes_of(out));
}

void Session::entry_changed(Inode parent, std::string_view name) {
  open_dirs_.changed_elsewhere(parent);
  if (!kernel_nodes_.has(parent)) return;
  fuse_notify_inval_entry_out out{};
  out.parent = parent.value;
  out.namelen = static_cast<std::uint32_t>(name.size());
  channel_.notify(Notice::kEntry, bytes_of(out), name);
  node_changed(parent);
}

void Session::node_changed(Inode node) {
  open_dirs_.changed_elsewhere(node);
  send_changed(node);
}

void Session::send_changed(Inode node) {
  if (!kernel_nodes_.has(node)) return;
  fuse_notify_inval_inode_out out{};
  out.ino = node.value;
  channel_.notify(Notice::kInode, bytes_of(out));
}

void Session::notify_later(Inode node) {
  run_later([this, node] { send_changed(node); });
}

void Session::run_later(std::function<void()> task) {
  std::lock_guard guard(notices_mutex_);
  if (notices_ended_) return;
  if (!notices_) notices_ = std::make_unique<Workers>(1);
  notices_->run(std::move(task));
}

void Session::end_notices() {
  std::unique_ptr<Workers> ending;
  {
    std::lock_guard guard(notices_mutex_);
    notices_ended_ = true;
    ending = std::move(notices_);
  }
  ending.reset();  // sends the remaining ones, without the lock: a request may be waiting for it
}

void Session::everything_changed() {
  open_dirs_.all_changed_elsewhere();
  if (knows_all_names_notice_) channel_.notify(Notice::kAllNames, {});
  for (Inode node : kernel_nodes_.list()) send_changed(node);
}

}  // namespace warren
