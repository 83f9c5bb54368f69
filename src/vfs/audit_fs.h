// A view of a tree that records what its caller does, and what it was refused (store/record/audit_log.h).
//
// One event for each operation. A change that fails is recorded with the error; looking up names and reading attributes
// is not an operation, unless it is refused. Within a unit, what concerns one file becomes one event: writing a file is
// "write", though it was created, cut and written. The events of a unit are stored with it; if it is not committed,
// what was read and refused in it is recorded all the same, and its changes as "not_committed".
//
// An operation whose event cannot be stored fails. A refusal stays a refusal, whether it can be recorded or not.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "fs/forwarding_fs.h"
#include "store/record/audit_log.h"
#include "vfs/caller.h"
#include "vfs/path_table.h"

namespace warren {

// Which reads and listings that succeed are events.
enum class AuditReads : std::uint8_t {
  kNone,
  kByFile,  // the first read of a file after it was opened, and one for each unit
  // In a mount that gets a request for each open file: it reads nothing at offset 0 when a program opens a file for
  // reading, and later reads, which the kernel's cache may save, do not count.
  kByOpening,
};

// What the calling thread does next belongs to this trace. They nest.
class TraceScope {
 public:
  explicit TraceScope(std::string trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  static const std::string* current();  // null: none

 private:
  std::string trace_;
  TraceScope* outer_;
};

// Thread-safe. The tree, the log and the clock outlive it.
class AuditFs final : public ForwardingFs {
 public:
  AuditFs(FileSystem& tree, AuditLog& log, Caller caller, AuditReads reads, Clock& clock);
  ~AuditFs() override;

  // Records what was not done through this interface, as a query that returns content.
  Status record(std::string_view op, std::string_view path, const Status& outcome,
                std::optional<std::uint64_t> size_bytes = std::nullopt);
  // Stores the events of what was read so far: before it is handed out.
  Status check_recorded();
  // Whether anything was refused here so far.
  bool has_refused() const { return has_refused_; }

  Result<std::unique_ptr<Unit>> begin(UnitAccess access) override;

  Result<Attributes> lookup(Inode parent, std::string_view name) override;
  Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) override;
  Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name) override;
  Status unlink(Inode parent, std::string_view name) override;
  Status remove_dir(Inode parent, std::string_view name) override;
  Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                RenameMode mode) override;
  Result<std::unique_ptr<DirStream>> open_dir(Inode dir) override;

  Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes) override;
  Result<std::string> read_link(Inode node) override;
  Status retain(Inode node) override;
  void forget(Inode node, std::uint64_t count) override;
  Result<Attributes> create(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> open(Inode node) override;
  void release(Inode node) override;

  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override;
  Status write(Inode node, std::uint64_t offset, Bytes data) override;
  Result<std::uint64_t> append(Inode node, Bytes data) override;
  Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) override;
  Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                   std::uint64_t length) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

 private:
  class AuditUnit;
  class Stream;

  AuditUnit* this_threads_unit() const;
  AuditUnit* unit_around(AuditUnit& inner) const;
  AuditEvent event_of(std::string_view op, std::string path) const;
  AuditEvent event_on(std::string_view op, Inode node);
  AuditEvent event_in(std::string_view op, Inode dir, std::string_view name);

  template <class Call>
  auto change(AuditEvent event, const Call& call) -> decltype(call());
  // Records only that it was refused.
  template <class Call>
  auto refusable(std::string_view op, Inode node, const Call& call) -> decltype(call());
  Status note_read(AuditEvent event);
  void note_refusal(AuditEvent event, const Error& error);
  bool is_first_read(Inode node);
  Result<Attributes> learned(Result<Attributes> made, Inode parent, std::string_view name);

  AuditLog& log_;
  const Caller caller_;
  const AuditReads reads_;
  Clock& clock_;
  PathTable table_{PathTable::kSizeMax, 1};  // the name under which a file was last found is enough

  std::atomic<bool> has_refused_ = false;
  std::mutex read_mutex_;
  std::unordered_set<Inode> read_;  // since they were opened
};

}  // namespace warren
