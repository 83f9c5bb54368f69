// The part of BlobFs for content and units.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/no_wait.h"
#include "base/path.h"
#include "vfs/blob_fs.h"

namespace warren {
namespace {

// Appending again after others appended. Each attempt that fails is one that somebody else made.
constexpr int kAppendAttempts = 100;

Error gone_meanwhile(std::string_view key) {
  return Error(Code::kStale, fmt::format("{} no longer exists", quote(key)));
}

Error changed_meanwhile(std::string_view key) {
  return Error(Code::kConflict, fmt::format("{} was changed by another writer", quote(key)));
}

// The store will answer the same the next time.
bool is_final(Code code) {
  switch (code) {
    case Code::kUnavailable:
    case Code::kTimeout:
    case Code::kBusy:
    case Code::kIo:
    case Code::kNoSpace: return false;
    default: return true;
  }
}

}  // namespace

// Units.

class BlobFs::BlobUnit final : public Unit {
 public:
  explicit BlobUnit(BlobFs& fs) : fs_(fs) {
    std::lock_guard lock(fs_.units_mutex_);
    UnitState& unit = fs_.units_[std::this_thread::get_id()];
    ++unit.depth;
    changed_before_ = unit.changed.size();
  }
  ~BlobUnit() override {
    UnitState* unit = fs_.this_threads_unit();
    if (--unit->depth > 0) {
      if (!is_committed_ && unit->changed.size() > changed_before_) unit->has_failed = true;
      return;
    }
    if (!is_committed_) fs_.abandon_unit(*unit);
    std::lock_guard lock(fs_.units_mutex_);
    fs_.units_.erase(std::this_thread::get_id());
  }

  Status commit() override {
    is_committed_ = true;
    UnitState* unit = fs_.this_threads_unit();
    return unit->depth == 1 ? fs_.end_unit(*unit) : Status(Ok{});
  }

 private:
  BlobFs& fs_;
  std::size_t changed_before_ = 0;
  bool is_committed_ = false;
};

Result<std::unique_ptr<Unit>> BlobFs::begin(UnitAccess access) {
  if (access == UnitAccess::kWrite) WARREN_TRY(reach());  // its end has to be able to wait
  return std::unique_ptr<Unit>(std::make_unique<BlobUnit>(*this));
}

BlobFs::UnitState* BlobFs::this_threads_unit() {
  std::lock_guard lock(units_mutex_);
  auto unit = units_.find(std::this_thread::get_id());
  return unit == units_.end() ? nullptr : &unit->second;
}

// One after the other: the store has no transactions for them. After a failure the rest is not put.
Status BlobFs::end_unit(UnitState& unit) {
  if (unit.has_failed) {
    abandon_unit(unit);
    return Error(Code::kConflict, "a part of the unit was not committed");
  }
  for (const NodePtr& node : unit.changed) {
    Busy busy(node->busy);
    if (!node->gathered) continue;
    Status put = put_gathered(node);
    busy.unlock();
    if (put.ok()) continue;
    abandon_unit(unit);
    return put;
  }
  unit.changed.clear();
  unit.seen.clear();
  unit.made.clear();
  return Ok{};
}

void BlobFs::abandon_unit(UnitState& unit) {
  for (const NodePtr& node : unit.changed) {
    Busy busy(node->busy);
    if (is_of_another_unit(*node)) continue;
    drop_gathered(*node);
    bool was_new = false;
    {
      std::lock_guard lock(nodes_mutex_);
      was_new = std::exchange(node->is_new, false);
    }
    if (was_new) mark_removed(node);
  }
  unit.changed.clear();
  unit.seen.clear();
  unit.made.clear();
}

// Gathering.

bool BlobFs::is_of_another_unit(const Node& node) {
  return node.gathered && node.gathered->unit && *node.gathered->unit != std::this_thread::get_id();
}

void BlobFs::drop_gathered(Node& node) {
  if (!node.gathered) return;
  gathered_bytes_ -= node.gathered->content.size();
  node.gathered.reset();
}

void BlobFs::resize(Gathered& gathered, std::uint64_t size) {
  gathered_bytes_ += size;
  gathered_bytes_ -= gathered.content.size();
  gathered.content.resize(size);
}

Status BlobFs::check_size(std::uint64_t offset, std::uint64_t length) const {
  if (offset <= abilities_.largest && length <= abilities_.largest - offset) return Ok{};
  return Error(Code::kTooLarge, fmt::format("a file of this store has at most {} bytes", abilities_.largest));
}

// Makes the file's content ready to be changed. In a unit it must be what the unit has seen.
Status BlobFs::gather(const NodePtr& node, OldContent old_content) {
  UnitState* unit = this_threads_unit();
  if (node->gathered) {
    if (old_content == OldContent::kDropped) {
      resize(*node->gathered, 0);
      node->gathered->appended.reset();
      node->gathered->expires.reset();
    }
    return Ok{};
  }
  std::string key = key_of(node);
  // What the unit made was dropped, because another file was there: that one is not ours to change.
  if (unit != nullptr && unit->made.contains(node->inode)) {
    return Error(Code::kExists, fmt::format("{} exists", quote(key)));
  }
  const Blob* seen = nullptr;
  if (unit != nullptr) {
    auto found = unit->seen.find(node->inode);
    if (found != unit->seen.end()) seen = &found->second;
  }
  Gathered gathered;
  BlobInfo info;
  bool is_whole = seen != nullptr && seen->content.size() == seen->info.size;
  if (seen != nullptr && (is_whole || old_content == OldContent::kDropped)) {
    info = seen->info;
    if (old_content == OldContent::kNeeded) gathered.content = seen->content;
  } else if (old_content == OldContent::kDropped) {
    std::optional<BlobInfo> found = WARREN_TRY(WARREN_TRY(reach())->find(key));
    if (!found) return gone_meanwhile(key);
    info = *std::move(found);
  } else {
    std::optional<Blob> blob = WARREN_TRY(WARREN_TRY(reach())->get(key));
    if (!blob) return gone_meanwhile(key);
    if (seen != nullptr && seen->info.version != blob->info.version) return changed_meanwhile(key);
    info = std::move(blob->info);
    gathered.content = std::move(blob->content);
  }
  if (old_content == OldContent::kNeeded) gathered.appended = gathered.content.size();
  gathered.version = std::move(info.version);
  if (old_content == OldContent::kNeeded) gathered.expires = info.expires;  // what replaces all of it begins anew
  gathered.modified = clock_.now();
  gathered.since_ns = clock_.monotonic_ns();
  gathered_bytes_ += gathered.content.size();
  node->gathered = std::move(gathered);
  if (unit != nullptr) unit->changed.push_back(node);
  return Ok{};
}

Status BlobFs::change_expiry(const NodePtr& node, std::optional<Timestamp> expires) {
  Busy busy(node->busy);
  WARREN_TRY(gather(node, OldContent::kNeeded));
  node->gathered->expires = expires;
  node->gathered->appended.reset();
  return changed(node, busy);
}

// After a change of what is gathered.
Status BlobFs::changed(const NodePtr& node, Busy& busy) {
  node->gathered->modified = clock_.now();
  if (this_threads_unit() != nullptr) return Ok{};
  if (gathered_bytes_ > options_.gathered_bytes && !NoWait::forbids_waiting()) return put_gathered(node);
  busy.unlock();
  wait_for_writer(node);
  return Ok{};
}

// Puts what is gathered. What was not put is kept, unless the store refuses it for good.
Status BlobFs::put_gathered(const NodePtr& node) {
  BlobStore* store = WARREN_TRY(reach());
  std::string key = key_of(node);
  Gathered& gathered = *node->gathered;
  for (int attempt = 1;; ++attempt) {
    PutOptions options = put_options_of(gathered.expires);
    if (abilities_.conditional_puts) {
      options.if_match = gathered.version;
      options.if_absent = !gathered.version;
    }
    std::optional<BlobInfo> taken;  // a new file replaces nothing
    if (!abilities_.conditional_puts && !gathered.version) taken = WARREN_TRY(store->find(key));
    Result<BlobInfo> put =
        taken ? Result<BlobInfo>(changed_meanwhile(key)) : store->put(key, as_bytes(gathered.content), options);
    Result<bool> is_settled = put.ok();
    bool is_conflict = !put.ok() && (put.error().code() == Code::kConflict || put.error().code() == Code::kExists);
    if (is_conflict && attempt < kAppendAttempts) {
      is_settled = settle_conflict(key, gathered);
      if (!is_settled.ok() && is_settled.error().code() == Code::kBusy) continue;  // appended again
    }
    if (is_settled.ok() && *is_settled) {
      drop_gathered(*node);
      std::lock_guard lock(nodes_mutex_);
      node->is_new = false;
      waiting_.erase(node->inode);
      return Ok{};
    }
    Error error = is_conflict && !is_settled.ok() ? std::move(is_settled).take_error()
                  : is_conflict                   ? changed_meanwhile(key)
                                                  : std::move(put).take_error();
    if (is_final(error.code())) drop_gathered(*node);
    else gathered.is_in_doubt = true;
    return error;
  }
}

// After another version was found: true if it is ours after all, kBusy if ours was changed to append to it.
Result<bool> BlobFs::settle_conflict(const std::string& key, Gathered& gathered) {
  if (!gathered.is_in_doubt && !(gathered.version && gathered.appended)) return false;
  std::optional<Blob> current = WARREN_TRY(WARREN_TRY(reach())->get(key));
  if (!current) return false;
  if (gathered.is_in_doubt && current->content == gathered.content) return true;
  if (!gathered.version || !gathered.appended) return false;
  std::string tail = gathered.content.substr(*gathered.appended);
  WARREN_TRY(check_size(current->content.size(), tail.size()));
  gathered_bytes_ -= gathered.content.size();
  gathered.appended = current->content.size();
  gathered.content = std::move(current->content) + tail;
  gathered_bytes_ += gathered.content.size();
  gathered.version = std::move(current->info.version);
  gathered.expires = current->info.expires;
  return Error(Code::kBusy, "append again");
}

// What the writer has to do.

void BlobFs::wait_for_writer(const NodePtr& node) {
  {
    std::lock_guard lock(nodes_mutex_);
    waiting_.insert(node->inode);
  }
  std::lock_guard lock(writer_mutex_);
  if (writer_.joinable() || is_ending_) return;
  writer_ = std::thread([this] { write_back(); });
}

std::vector<BlobFs::NodePtr> BlobFs::waiting_nodes() {
  std::lock_guard lock(nodes_mutex_);
  std::vector<NodePtr> nodes;
  for (Inode inode : waiting_) {
    auto node = nodes_.find(inode);
    if (node != nodes_.end()) nodes.push_back(node->second);
  }
  return nodes;
}

// For what no program closes: pages of memory maps, files of programs that were killed. A failure is reported by the
// next flush or sync of the file.
void BlobFs::write_back() {
  std::unique_lock lock(writer_mutex_);
  while (!is_ending_) {
    writer_wakes_.wait_for(lock, options_.write_back / 2);
    if (is_ending_) return;
    lock.unlock();
    for (const NodePtr& node : waiting_nodes()) {
      Busy busy(node->busy, std::try_to_lock);
      if (!busy.owns_lock() || !node->gathered || is_of_another_unit(*node)) continue;
      std::int64_t age_ns = clock_.monotonic_ns() - node->gathered->since_ns;
      if (age_ns < std::chrono::nanoseconds(options_.write_back).count()) continue;
      node->gathered->since_ns = clock_.monotonic_ns();
      Status put = put_gathered(node);
      if (!put.ok()) node->failure = put.error();
    }
    lock.lock();
  }
}

Status BlobFs::store_node(const NodePtr& node) {
  Busy busy(node->busy);
  if ((!node->gathered && !node->failure) || is_of_another_unit(*node)) return Ok{};
  WARREN_TRY(reach());
  Status put = node->gathered ? put_gathered(node) : Status(Ok{});
  std::optional<Error> failure = std::exchange(node->failure, std::nullopt);
  if (!node->gathered) {
    std::lock_guard lock(nodes_mutex_);
    waiting_.erase(node->inode);
    // A change that could not be put for good was dropped; one that could be put now is stored.
    if (put.ok() && failure && is_final(failure->code())) return *std::move(failure);
  }
  return put;
}

Status BlobFs::flush(Inode inode) {
  Result<NodePtr> node = get_node(inode);
  if (!node.ok()) return Ok{};  // removed, with what was written to it
  return store_node(*node);
}

Status BlobFs::sync(Inode inode) {
  if (inode != kRootInode) return flush(inode);
  Status all = Ok{};
  for (const NodePtr& node : waiting_nodes()) {
    Status one = store_node(node);
    if (!one.ok() && all.ok()) all = std::move(one);
  }
  return all;
}

// Content.

Result<std::size_t> BlobFs::read(Inode inode, std::uint64_t offset, MutableBytes out) {
  NodePtr node = WARREN_TRY(get_file(inode));
  auto copy = [&](std::string_view content) {
    std::size_t length = offset < content.size() ? std::min<std::size_t>(out.size(), content.size() - offset) : 0;
    if (length > 0) std::memcpy(out.data(), content.data() + offset, length);
    return length;
  };
  {
    Busy busy(node->busy);
    if (node->gathered) return copy(node->gathered->content);
  }
  UnitState* unit = this_threads_unit();
  auto seen = unit == nullptr ? std::map<Inode, Blob>::iterator() : unit->seen.find(inode);
  bool was_seen = unit != nullptr && seen != unit->seen.end();
  if (was_seen && seen->second.content.size() == seen->second.info.size) return copy(seen->second.content);
  std::string key = key_of(node);
  std::optional<Blob> blob = WARREN_TRY(WARREN_TRY(reach())->get_range(key, offset, out.size()));
  if (!blob) return gone_meanwhile(key);
  if (was_seen && seen->second.info.version != blob->info.version) return changed_meanwhile(key);
  std::size_t length = std::min(out.size(), blob->content.size());
  if (length > 0) std::memcpy(out.data(), blob->content.data(), length);
  return length;
}

Status BlobFs::write(Inode inode, std::uint64_t offset, Bytes data) {
  NodePtr node = WARREN_TRY(get_file(inode));
  WARREN_TRY(check_size(offset, data.size()));
  if (data.empty()) return Ok{};
  Busy busy(node->busy);
  WARREN_TRY(gather(node, OldContent::kNeeded));
  Gathered& gathered = *node->gathered;
  if (offset + data.size() > gathered.content.size()) resize(gathered, offset + data.size());
  std::memcpy(gathered.content.data() + offset, data.data(), data.size());
  gathered.appended.reset();
  return changed(node, busy);
}

Result<std::uint64_t> BlobFs::append(Inode inode, Bytes data) {
  NodePtr node = WARREN_TRY(get_file(inode));
  if (data.empty()) return WARREN_TRY(get_attributes(inode))
  .size;
  Busy busy(node->busy);
  WARREN_TRY(gather(node, OldContent::kNeeded));
  Gathered& gathered = *node->gathered;
  std::uint64_t offset = gathered.content.size();
  WARREN_TRY(check_size(offset, data.size()));
  gathered.content += as_text(data);
  gathered_bytes_ += data.size();
  WARREN_TRY(changed(node, busy));
  return offset;
}

Result<Attributes> BlobFs::set_attributes(Inode inode, const AttributeChanges& changes) {
  NodePtr node = WARREN_TRY(get_node(inode));
  for (const std::optional<SetTime>& time : {changes.atime, changes.mtime}) {
    if (time && time->at && (time->at->nanoseconds < 0 || time->at->nanoseconds > 999'999'999)) {
      return Error(Code::kInvalid, fmt::format("{} is not a valid number of nanoseconds", time->at->nanoseconds));
    }
  }
  if (changes.size && node->is_dir)
    return Error(Code::kIsDirectory, fmt::format("inode {} is a directory", inode.value));
  Attributes now = WARREN_TRY(get_attributes(inode));
  if ((changes.mode && *changes.mode != (now.mode & 07777)) || (changes.uid && *changes.uid != now.owner.uid) ||
      (changes.gid && *changes.gid != now.owner.gid)) {
    return Error(Code::kUnsupported, "all files of this filesystem have the same mode and owner");
  }
  if (!changes.size) return now;
  WARREN_TRY(check_size(*changes.size, 0));
  Busy busy(node->busy);
  WARREN_TRY(gather(node, *changes.size == 0 ? OldContent::kDropped : OldContent::kNeeded));
  if (*changes.size != node->gathered->content.size()) node->gathered->appended.reset();
  resize(*node->gathered, *changes.size);
  Attributes after = file_attributes(*node, *changes.size, clock_.now());
  WARREN_TRY(changed(node, busy));
  return after;
}

Status BlobFs::allocate(Inode inode, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  NodePtr node = WARREN_TRY(get_file(inode));
  if (length == 0) return Error(Code::kInvalid, "nothing to allocate");
  bool may_grow = mode == AllocateMode::kAllocate || mode == AllocateMode::kZeroRange;
  if (may_grow) WARREN_TRY(check_size(offset, length));
  if (offset > limits::kFileBytes || length > limits::kFileBytes - offset) {
    return Error(Code::kTooLarge, fmt::format("a file has at most {} bytes", limits::kFileBytes));
  }
  if (mode == AllocateMode::kKeepSize) return Ok{};
  std::uint64_t size = WARREN_TRY(get_attributes(inode))
  .size;
  if (mode == AllocateMode::kAllocate && offset + length <= size) return Ok{};
  Busy busy(node->busy);
  WARREN_TRY(gather(node, OldContent::kNeeded));
  Gathered& gathered = *node->gathered;
  std::uint64_t end = offset + length;
  if (may_grow && end > gathered.content.size()) resize(gathered, end);
  if (mode != AllocateMode::kAllocate && offset < gathered.content.size()) {
    std::memset(gathered.content.data() + offset, 0, std::min<std::uint64_t>(end, gathered.content.size()) - offset);
  }
  gathered.appended.reset();
  return changed(node, busy);
}

// There are no holes.
Result<std::uint64_t> BlobFs::seek_data(Inode inode, std::uint64_t offset) {
  WARREN_TRY(get_file(inode));
  Attributes now = WARREN_TRY(get_attributes(inode));
  if (offset >= now.size) return Error(Code::kNoData, fmt::format("no data from {} on", offset));
  return offset;
}

Result<std::uint64_t> BlobFs::seek_hole(Inode inode, std::uint64_t offset) {
  WARREN_TRY(get_file(inode));
  Attributes now = WARREN_TRY(get_attributes(inode));
  if (offset >= now.size) return Error(Code::kNoData, fmt::format("{} is beyond the end", offset));
  return now.size;
}

Result<std::uint64_t> BlobFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                         std::uint64_t length) {
  WARREN_TRY(get_file(from));
  WARREN_TRY(get_file(to));
  Attributes source = WARREN_TRY(get_attributes(from));
  if (from_offset >= source.size || length == 0) return std::uint64_t{0};
  length = std::min(length, source.size - from_offset);
  WARREN_TRY(check_size(to_offset, length));
  if (from == to && from_offset < to_offset + length && to_offset < from_offset + length) {
    return Error(Code::kInvalid, "the ranges overlap");
  }
  std::string content(std::min<std::uint64_t>(length, limits::kCopyBytes), '\0');
  std::uint64_t done = 0;
  while (done < length) {
    std::size_t step = std::min<std::size_t>(content.size(), length - done);
    std::size_t got = WARREN_TRY(read(from, from_offset + done, as_mutable_bytes(content).first(step)));
    if (got == 0) break;
    WARREN_TRY(write(to, to_offset + done, as_bytes(content).first(got)));
    done += got;
  }
  return done;
}

}  // namespace warren
