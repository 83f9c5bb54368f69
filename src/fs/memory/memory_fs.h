// A filesystem in memory: for tests, and for data that need not outlive the process.
//
// It is the oracle the other filesystems are tested against, so it is simple rather than fast.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "fs/file_system.h"
#include "fs/memory/sparse_bytes.h"

namespace warren {

// Thread-safe: one lock, which a Unit holds while it exists, so a Unit must end on the thread that began it. The clock
// outlives the filesystem.
class MemoryFs final : public FileSystem {
 public:
  // At most `bytes_max` of content, attributes and names: kNoSpace. A name counts limits::kMemoryNodeBytes more.
  explicit MemoryFs(Clock& clock, std::uint32_t chunk_bytes = limits::kChunkBytesDefault,
                    std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max());

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
  Result<std::vector<EntryName>> list_names_of(Inode node) override;

  Result<Attributes> get_attributes(Inode node) override;
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
  Result<std::uint64_t> seek_data(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> seek_hole(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                   std::uint64_t length) override;
  Result<Fd> open_backing(Inode) override { return Fd(); }
  void reserve_number(Inode, std::uint64_t) override {}
  Status flush(Inode) override { return Ok{}; }
  Status sync(Inode node) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats(Inode node) override;
  bool run_idle_work() override { return false; }
  Status listen(ChangeListener* listener) override;  // only files that expire (fs/expiry.h) change by themselves
  ~MemoryFs() override;

 private:
  class Stream;
  class Held;
  using Lock = std::lock_guard<std::recursive_mutex>;

  struct Entry {
    Inode inode;
    std::uint64_t cookie = 0;  // kept when the name gets another node, so that it is listed once
  };

  struct Node {
    Attributes attributes;  // the size of a regular file is in content
    Inode parent;           // of a directory
    std::map<std::string, Entry, std::less<>> entries;
    std::map<std::uint64_t, std::string> by_cookie;
    std::string target;
    std::map<std::string, std::string, std::less<>> xattrs;
    std::uint64_t retained = 0;
    SparseBytes content;

    bool is_directory() const { return attributes.is_directory(); }
  };

  // One side of a rename: a name in a directory, and its node, if any.
  struct Side {
    Node& dir;
    std::string_view name;
    Node* node;
  };

  // What a write unit has changed so far, for when it ends without commit.
  struct Undo {
    std::vector<std::function<void()>> steps;  // the last one is undone first
    std::set<Inode> kept;                      // nodes whose values are in a step
    std::uint64_t used_bytes = 0;
    std::uint64_t changes = 0;
    bool is_broken = false;  // an inner unit changed something and ended without commit
  };
  template <class Step>
  void note_undo(Step step);
  void keep(Node& node);  // its values, before it is changed
  void roll_back();

  Result<Node*> get_node(Inode inode);
  Result<Node*> get_directory(Inode inode);
  Result<Node*> get_linked_directory(Inode inode);  // kNotFound once it was removed
  Result<Node*> get_file(Inode inode);
  Node* find_child(Node& dir, std::string_view name);
  Result<Node*> get_child(Node& dir, std::string_view name);

  Attributes report(const Node& node) const;
  Result<Node*> add_node(Inode parent, std::string_view name, std::uint32_t type, const NewNode& node);
  void add_entry(Node& dir, std::string_view name, Inode inode);
  void set_entry(Node& dir, std::string_view name, Inode inode);  // of a name that is there
  void remove_entry(Node& dir, std::string_view name);
  void drop_name(Node& node, Timestamp now);  // the node has lost one name
  void collect(Node& node);
  bool is_within(Inode dir, Inode ancestor);
  Status check_rename(const Side& from, const Side& to, RenameMode mode);
  void move_parent(Node& moved, Node& from, Node& to);
  void exchange(const Side& from, const Side& to);
  void replace(const Side& from, const Side& to, Timestamp now);
  void touch_content(Node& node);
  Status check_room(std::uint64_t more) const;
  // Changes the content by `change`, and counts what it takes or frees.
  template <class Change>
  void change_content(Node& node, const Change& change);
  Status set_expiry(Node& node, Bytes value);
  void clear_expiry(Node& node);
  void remove_expired();
  void report_expired();  // a thread, while somebody listens

  std::recursive_mutex mutex_;  // guards everything below
  Clock& clock_;
  const std::uint32_t chunk_bytes_;
  const std::uint64_t bytes_max_;
  std::uint64_t used_bytes_ = 0;
  std::map<Inode, Node> nodes_;
  std::uint64_t next_inode_ = 2;
  std::uint64_t next_cookie_ = 3;
  std::map<Inode, std::int64_t> expiries_;  // milliseconds since 1970
  int write_units_ = 0;
  std::optional<Undo> undo_;  // of the outermost write unit

  ChangeListener* listener_ = nullptr;
  std::vector<std::pair<Inode, std::string>> expired_;  // entries that the listener does not know to be gone
  bool is_ending_ = false;
  std::condition_variable_any changed_;  // one of the above
  std::thread reporter_;
};

}  // namespace warren
