#include "vfs/audit_fs.h"

#include <algorithm>
#include <utility>

#include "base/no_wait.h"
#include "base/path.h"

namespace warren {
namespace {

thread_local TraceScope* innermost_trace = nullptr;
constexpr std::size_t kComparedEvents = 16;
constexpr std::size_t kReadFilesMax = 65'536;  // remembered as read without having been opened

bool is_read_op(std::string_view op) { return op == "read" || op == "list" || op == "query"; }

// Content and creation of one file within a unit: the events that become one.
bool is_content_op(std::string_view op) {
  return op == "create" || op == "truncate" || op == "write" || op == "append" || op == "xattr";
}

// Another thread repeats the call: nothing was done.
bool will_be_repeated(const Error& error) { return error.code() == Code::kBusy && NoWait::is_hit(); }

bool is_refusal(const Error& error) { return error.code() == Code::kDenied || error.code() == Code::kNotPermitted; }

void fail(AuditEvent& event, std::string_view err) {
  event.ok = false;
  event.err = err;
}

}  // namespace

TraceScope::TraceScope(std::string trace) : trace_(std::move(trace)), outer_(innermost_trace) {
  innermost_trace = this;
}
TraceScope::~TraceScope() { innermost_trace = outer_; }
const std::string* TraceScope::current() { return innermost_trace == nullptr ? nullptr : &innermost_trace->trace_; }

// Units.

class AuditFs::AuditUnit final : public Unit {
 public:
  AuditUnit(AuditFs& fs, std::unique_ptr<Unit> inner) : fs_(fs), inner_(std::move(inner)), outer_(innermost_) {
    innermost_ = this;
  }
  ~AuditUnit() override {
    innermost_ = outer_;
    if (is_done_) return;
    inner_.reset();
    for (AuditEvent& event : events_) {
      if (event.ok && !is_read_op(event.op)) fail(event, "not_committed");
    }
    pass_on_or_store().ignore("the unit has failed; what was read stays noted, and the next read returns the error");
  }
  AuditUnit(const AuditUnit&) = delete;
  AuditUnit& operator=(const AuditUnit&) = delete;

  Status commit() override {
    is_done_ = true;
    if (AuditUnit* outer = fs_.unit_around(*this)) {
      Status done = inner_->commit();
      if (!done.ok()) fail_all(done.error());
      outer->add_all(std::move(events_));
      return done;
    }
    bool is_taken = false;
    Status done = Ok{};
    {
      AuditLog::Scope scope(fs_.log_, events_);
      done = inner_->commit();
      is_taken = scope.is_taken();
    }
    inner_.reset();  // rolls back what was not committed
    if (done.ok()) return is_taken ? Status(Ok{}) : store();
    fail_all(done.error());
    if (!will_be_repeated(done.error())) store().ignore("the unit has failed already");
    return done;
  }

  // What concerns the content of one file in a unit is one event. Only the last few are compared, and none before names
  // were moved or removed.
  void add(AuditEvent event) {
    std::size_t compared = 0;
    for (auto known = events_.rbegin(); known != events_.rend() && compared < kComparedEvents; ++known, ++compared) {
      bool is_end = known->ok && !is_read_op(known->op) && !is_content_op(known->op) && known->op != "mkdir";
      if (is_end && !is_read_op(event.op)) break;
      if (known->path != event.path || known->to != event.to || known->ok != event.ok) continue;
      if (known->op == event.op && (is_read_op(event.op) || !event.ok)) return;
      if (event.ok && is_content_op(known->op) && is_content_op(event.op)) return combine(*known, event);
    }
    events_.push_back(std::move(event));
  }

  AuditFs& fs() { return fs_; }
  AuditUnit* outer() { return outer_; }
  static AuditUnit* innermost() { return innermost_; }

 private:
  static void combine(AuditEvent& known, const AuditEvent& next) {
    bool is_data = next.op == "write" || next.op == "append";
    bool was_data = known.op == "write" || known.op == "append";
    if (is_data && was_data) known.size_bytes = known.size_bytes.value_or(0) + next.size_bytes.value_or(0);
    else if (is_data) known.size_bytes = next.size_bytes;
    if (is_data && !was_data) known.op = next.op;
  }

  void fail_all(const Error& error) {
    for (AuditEvent& event : events_) {
      if (event.ok && !is_read_op(event.op)) fail(event, audit_error_name(error.code()));
    }
  }

  void add_all(std::vector<AuditEvent> events) {
    for (AuditEvent& event : events) add(std::move(event));
  }

  Status pass_on_or_store() {
    if (AuditUnit* outer = fs_.unit_around(*this)) {
      outer->add_all(std::move(events_));
      return Ok{};
    }
    return store();
  }

  // In a transaction of its own: nothing of the unit is left to be part of.
  Status store() {
    bool only_reads =
        std::ranges::all_of(events_, [](const AuditEvent& event) { return event.ok && is_read_op(event.op); });
    return only_reads ? fs_.log_.defer(std::move(events_)) : fs_.log_.append(std::move(events_));
  }

  AuditFs& fs_;
  std::unique_ptr<Unit> inner_;
  AuditUnit* outer_;
  bool is_done_ = false;
  std::vector<AuditEvent> events_;
  static inline thread_local AuditUnit* innermost_ = nullptr;
};

AuditFs::AuditUnit* AuditFs::this_threads_unit() const {
  AuditUnit* unit = AuditUnit::innermost();
  while (unit != nullptr && &unit->fs() != this) unit = unit->outer();
  return unit;
}

AuditFs::AuditUnit* AuditFs::unit_around(AuditUnit& inner) const {
  AuditUnit* unit = inner.outer();
  while (unit != nullptr && &unit->fs() != this) unit = unit->outer();
  return unit;
}

Result<std::unique_ptr<Unit>> AuditFs::begin(UnitAccess access) {
  if (access == UnitAccess::kRead && this_threads_unit() == nullptr) WARREN_TRY(log_.check());
  std::unique_ptr<Unit> inner_unit = WARREN_TRY(inner().begin(access));
  return std::unique_ptr<Unit>(new AuditUnit(*this, std::move(inner_unit)));
}

// Events.

AuditFs::AuditFs(FileSystem& tree, AuditLog& log, Caller caller, AuditReads reads, Clock& clock)
    : ForwardingFs(tree), log_(log), caller_(std::move(caller)), reads_(reads), clock_(clock) {}
AuditFs::~AuditFs() = default;

AuditEvent AuditFs::event_of(std::string_view op, std::string path) const {
  AuditEvent event;
  event.at_us = clock_.now_us();
  event.agent = caller_.agent;
  event.op = op;
  event.path = std::move(path);
  const std::string* trace = TraceScope::current();
  event.trace = trace != nullptr ? *trace : caller_.trace;
  event.door = caller_.door;
  event.space = name_of(caller_.space);
  event.session = caller_.session;
  return event;
}

// A node that was never seen under a name is recorded by its number; no door of ours uses one.
AuditEvent AuditFs::event_on(std::string_view op, Inode node) {
  Result<std::vector<std::string>> paths = table_.paths_of(node);
  return event_of(op, paths.ok() ? std::move(paths->front()) : "#" + std::to_string(node.value));
}

AuditEvent AuditFs::event_in(std::string_view op, Inode dir, std::string_view name) {
  Result<std::string> path = table_.path_in(dir, name);
  return event_of(op, path.ok() ? *std::move(path) : "#" + std::to_string(dir.value) + "/" + std::string(name));
}

template <class Call>
auto AuditFs::change(AuditEvent event, const Call& call) -> decltype(call()) {
  if (AuditUnit* unit = this_threads_unit()) {
    auto result = call();
    if (!result.ok()) fail(event, audit_error_name(result.error().code()));
    if (!result.ok() && is_refusal(result.error())) has_refused_ = true;
    unit->add(std::move(event));
    return result;
  }
  auto result = log_.change(std::move(event), call);
  if (!result.ok() && is_refusal(result.error())) has_refused_ = true;
  return result;
}

template <class Call>
auto AuditFs::refusable(std::string_view op, Inode node, const Call& call) -> decltype(call()) {
  auto result = call();
  if (!result.ok() && is_refusal(result.error())) note_refusal(event_on(op, node), result.error());
  return result;
}

void AuditFs::note_refusal(AuditEvent event, const Error& error) {
  if (will_be_repeated(error)) return;
  has_refused_ = true;
  fail(event, audit_error_name(error.code()));
  if (AuditUnit* unit = this_threads_unit()) return unit->add(std::move(event));
  log_.append({std::move(event)}).ignore("it is refused, whether that can be recorded or not");
}

Status AuditFs::note_read(AuditEvent event) {
  if (AuditUnit* unit = this_threads_unit()) {
    unit->add(std::move(event));
    return Ok{};
  }
  WARREN_TRY(log_.check());
  return log_.defer({std::move(event)});
}

Status AuditFs::record(std::string_view op, std::string_view path, const Status& outcome,
                       std::optional<std::uint64_t> size_bytes) {
  AuditEvent event = event_of(op, std::string(path));
  event.size_bytes = size_bytes;
  if (outcome.ok()) return is_read_op(op) ? note_read(std::move(event)) : log_.append({std::move(event)});
  fail(event, audit_error_name(outcome.error().code()));
  log_.append({std::move(event)}).ignore("it has failed, whether that can be recorded or not");
  return Ok{};
}

Status AuditFs::check_recorded() {
  WARREN_TRY(log_.flush());
  return log_.check();
}

Result<Attributes> AuditFs::learned(Result<Attributes> made, Inode parent, std::string_view name) {
  if (made.ok()) table_.learn(*made, parent, name);
  return made;
}

// Names.

Result<Attributes> AuditFs::lookup(Inode parent, std::string_view name) {
  return learned(inner().lookup(parent, name), parent, name);
}

Result<Attributes> AuditFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  return learned(change(event_in("create", parent, name), [&] { return inner().make_node(parent, name, node); }),
                 parent, name);
}

Result<Attributes> AuditFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  return learned(change(event_in("mkdir", parent, name), [&] { return inner().make_dir(parent, name, node); }), parent,
                 name);
}

Result<Attributes> AuditFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) {
  AuditEvent event = event_in("symlink", parent, name);
  event.to = std::string(target);
  return learned(change(std::move(event), [&] { return inner().make_symlink(parent, name, target, owner); }), parent,
                 name);
}

Result<Attributes> AuditFs::create(Inode parent, std::string_view name, const NewNode& node) {
  Result<Attributes> made = learned(
      change(event_in("create", parent, name), [&] { return inner().create(parent, name, node); }), parent, name);
  if (made.ok()) table_.retain(made->inode);
  return made;
}

Result<Attributes> AuditFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  AuditEvent event = event_on("link", node);
  event.to = event_in("link", new_parent, new_name).path;
  return learned(change(std::move(event), [&] { return inner().link(node, new_parent, new_name); }), new_parent,
                 new_name);
}

Status AuditFs::unlink(Inode parent, std::string_view name) {
  // The table keeps the name: a file that is open is still known by it.
  return change(event_in("delete", parent, name), [&] { return inner().unlink(parent, name); });
}

Status AuditFs::remove_dir(Inode parent, std::string_view name) {
  return change(event_in("delete", parent, name), [&] { return inner().remove_dir(parent, name); });
}

Status AuditFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                       RenameMode mode) {
  AuditEvent event = event_in("rename", parent, name);
  event.to = event_in("rename", new_parent, new_name).path;
  Result<Attributes> moved = inner().lookup(parent, name);
  std::optional<Result<Attributes>> exchanged;
  if (mode == RenameMode::kExchange) exchanged = inner().lookup(new_parent, new_name);
  WARREN_TRY(change(std::move(event), [&] { return inner().rename(parent, name, new_parent, new_name, mode); }));
  if (moved.ok()) table_.moved(moved->inode, parent, name, new_parent, new_name);
  if (exchanged && exchanged->ok()) table_.moved((*exchanged)->inode, new_parent, new_name, parent, name);
  return Ok{};
}

// A policy may change while the directory is open, so that a page is refused. Entries that come with a number can be
// used without a lookup.
class AuditFs::Stream final : public DirStream {
 public:
  Stream(AuditFs& fs, Inode dir, std::unique_ptr<DirStream> inner) : fs_(fs), dir_(dir), inner_(std::move(inner)) {}

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    std::vector<DirEntry> page =
        WARREN_TRY(fs_.refusable("list", dir_, [&] { return inner_->read(cookie, max, detail); }));
    PathTable& table = fs_.table_;
    for (const DirEntry& entry : page) {
      if (entry.attributes) table.learn(*entry.attributes, dir_, entry.name);
      else if (entry.inode.value != 0) table.learn(entry.inode, dir_, entry.name, S_ISDIR(entry.type), true);
    }
    return page;
  }

 private:
  AuditFs& fs_;
  Inode dir_;
  std::unique_ptr<DirStream> inner_;
};

Result<std::unique_ptr<DirStream>> AuditFs::open_dir(Inode dir) {
  std::unique_ptr<DirStream> stream = WARREN_TRY(refusable("list", dir, [&] { return inner().open_dir(dir); }));
  if (reads_ != AuditReads::kNone) WARREN_TRY(note_read(event_on("list", dir)));
  return std::unique_ptr<DirStream>(new Stream(*this, dir, std::move(stream)));
}

// Nodes.

Result<Attributes> AuditFs::set_attributes(Inode node, const AttributeChanges& changes) {
  AuditEvent event = event_on(changes.size ? "truncate" : "attributes", node);
  event.size_bytes = changes.size;
  return change(std::move(event), [&] { return inner().set_attributes(node, changes); });
}

Result<std::string> AuditFs::read_link(Inode node) {
  return refusable("read", node, [&] { return inner().read_link(node); });
}

Status AuditFs::retain(Inode node) {
  WARREN_TRY(inner().retain(node));
  table_.retain(node);
  return Ok{};
}

void AuditFs::forget(Inode node, std::uint64_t count) {
  table_.forget(node, count);
  inner().forget(node, count);
}

Result<Attributes> AuditFs::open(Inode node) {
  Result<Attributes> opened = inner().open(node);
  if (!opened.ok()) return opened;
  table_.retain(node);
  std::lock_guard lock(read_mutex_);
  read_.erase(node);
  return opened;
}

void AuditFs::release(Inode node) {
  {
    std::lock_guard lock(read_mutex_);
    read_.erase(node);
  }
  table_.forget(node, 1);
  inner().release(node);
}

// Content.

bool AuditFs::is_first_read(Inode node) {
  if (this_threads_unit() != nullptr) return true;  // the unit drops repetitions
  std::lock_guard lock(read_mutex_);
  if (read_.size() >= kReadFilesMax) read_.clear();
  return read_.insert(node).second;
}

Result<std::size_t> AuditFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  std::size_t count = WARREN_TRY(refusable("read", node, [&] { return inner().read(node, offset, out); }));
  bool is_event = reads_ == AuditReads::kByOpening ? out.empty() && offset == 0
                                                   : reads_ == AuditReads::kByFile && is_first_read(node);
  if (!is_event) return count;
  AuditEvent event = event_on("read", node);
  Result<Attributes> file = inner().get_attributes(node);
  if (file.ok()) event.size_bytes = file->size;
  WARREN_TRY(note_read(std::move(event)));
  return count;
}

Status AuditFs::write(Inode node, std::uint64_t offset, Bytes data) {
  AuditEvent event = event_on("write", node);
  event.size_bytes = data.size();
  return change(std::move(event), [&] { return inner().write(node, offset, data); });
}

Result<std::uint64_t> AuditFs::append(Inode node, Bytes data) {
  AuditEvent event = event_on("append", node);
  event.size_bytes = data.size();
  return change(std::move(event), [&] { return inner().append(node, data); });
}

Status AuditFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  AuditEvent event = event_on("allocate", node);
  event.size_bytes = length;
  return change(std::move(event), [&] { return inner().allocate(node, mode, offset, length); });
}

Result<std::uint64_t> AuditFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                          std::uint64_t length) {
  AuditEvent event = event_on("copy", from);
  event.to = event_on("copy", to).path;
  Result<Attributes> source = inner().get_attributes(from);
  std::uint64_t left = source.ok() && source->size > from_offset ? source->size - from_offset : 0;
  event.size_bytes = std::min(length, left);
  return change(std::move(event), [&] { return inner().copy_range(from, from_offset, to, to_offset, length); });
}

Result<std::string> AuditFs::get_xattr(Inode node, std::string_view name) {
  // A kernel asks for these by itself when a program writes.
  if (name.starts_with("security.") || name.starts_with("system.")) return inner().get_xattr(node, name);
  return refusable("read", node, [&] { return inner().get_xattr(node, name); });
}

Result<std::vector<std::string>> AuditFs::list_xattrs(Inode node) {
  return refusable("read", node, [&] { return inner().list_xattrs(node); });
}

Status AuditFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  AuditEvent event = event_on("xattr", node);
  event.size_bytes = value.size();
  return change(std::move(event), [&] { return inner().set_xattr(node, name, value, mode); });
}

Status AuditFs::remove_xattr(Inode node, std::string_view name) {
  return change(event_on("xattr", node), [&] { return inner().remove_xattr(node, name); });
}

}  // namespace warren
